"""Authentication: client keys, and credential injection (the proxy's own credentials at replicas)."""
