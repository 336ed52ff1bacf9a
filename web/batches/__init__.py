"""Batches that the server runs: one debate of its table for each claim of a list."""
