"""Tracing (OpenTelemetry): which requests are recorded as traces, and what is recorded of them."""
