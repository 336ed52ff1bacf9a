"""The parts that all other packages use: errors, redaction, late imports, and network calls with limits and retries."""
