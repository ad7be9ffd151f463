"""The control plane: what should be true. Rows, services, publisher, probes, telemetry, REST API."""
