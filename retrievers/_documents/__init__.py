"""Readers for PDF, HTML, Word and CSV files."""
