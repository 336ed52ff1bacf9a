"""Documents: what is read of PDF, HTML, Word and CSV files."""
