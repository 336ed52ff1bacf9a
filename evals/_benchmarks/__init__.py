"""Reads the records of benchmarks as items, finds their gold evidence, and measures retrieval."""
