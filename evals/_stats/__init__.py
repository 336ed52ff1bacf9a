"""Measures and tests: pure functions on plain values."""
