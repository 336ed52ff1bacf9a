"""Measures of results, and statistical tests of differences."""
