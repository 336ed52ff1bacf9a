"""The steps of a debate, one per file; most are both a plain function and a node."""
