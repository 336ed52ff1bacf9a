"""Telemetry of a process while it runs: OpenTelemetry's spans and metrics. Off by default."""
