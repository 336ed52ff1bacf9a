"""Telemetry of a running process: OpenTelemetry's spans and metrics. It is off by default."""
