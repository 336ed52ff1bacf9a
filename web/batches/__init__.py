"""Batches that the server runs: a debate of its table for each claim of a list."""
