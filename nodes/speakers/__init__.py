"""Who debates, who hears whom, and how a round begins."""
