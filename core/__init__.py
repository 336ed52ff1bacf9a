"""What every room uses: errors, redaction, calls over the network with their limits and retries, late imports."""
