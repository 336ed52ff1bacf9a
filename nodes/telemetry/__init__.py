"""What telemetry records of debates, of their calls and searches, and what is logged of them."""
