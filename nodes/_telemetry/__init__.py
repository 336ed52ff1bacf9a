"""Telemetry and logs of debates, and of their calls and searches."""
