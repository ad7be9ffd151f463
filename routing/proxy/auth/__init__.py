"""Authentication: the keys of clients, and the proxy's credentials at replicas."""
