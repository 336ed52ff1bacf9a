"""Errors, redaction, network calls with limits and retries, and late imports: used by all other packages."""
