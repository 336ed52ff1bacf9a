"""Telemetry and logs of debates, their calls and searches."""
