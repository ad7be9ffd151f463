"""Admin server: liveness, readiness, metrics, status, emergency drain. Loopback by default."""
