"""Benchmarks: their files, their records, and the measures of their answers."""
