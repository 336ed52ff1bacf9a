"""Batches of the server. A batch is a list of claims; the server runs one debate for each claim."""
