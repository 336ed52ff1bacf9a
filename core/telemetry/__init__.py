"""What a process shows of itself while it runs, by OpenTelemetry: spans and metrics. Off unless it is turned on."""
