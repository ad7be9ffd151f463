"""The parent's admin listener: liveness, readiness, metrics, status, emergency drain. Loopback by default."""
