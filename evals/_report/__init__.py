"""Comparisons of systems, and the reports that show these comparisons."""
