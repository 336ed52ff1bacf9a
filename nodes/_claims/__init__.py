"""Finds the claims of a text, rates them, and rewrites each so that it can be understood without the text."""
