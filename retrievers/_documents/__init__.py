"""Fetches web pages, and reads PDF, HTML, Word and CSV files."""
