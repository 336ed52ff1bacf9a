"""Comparisons and the reports that show them."""
