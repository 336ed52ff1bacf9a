"""The basis of moot's other packages: configuration, errors, files, network calls, the store of replies, telemetry."""
