"""Claims out of a text: what can be checked, and rewritten so that it stands alone."""
