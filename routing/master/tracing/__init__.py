"""Tracing (OpenTelemetry): traces that workers have recorded are exported from here, by OTLP over HTTP."""
