"""Benchmarks: their files, records and items, their gold evidence, and measurements of retrieval."""
