"""Admin server (Envoy): liveness, readiness, metrics, status, emergency drain. On loopback by default."""
