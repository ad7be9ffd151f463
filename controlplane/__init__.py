"""The control plane: the desired state. Rows, services, publisher, probes, telemetry, REST API."""
