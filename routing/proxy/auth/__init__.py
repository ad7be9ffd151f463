"""Authentication: the keys of clients, and the credentials by which replicas are asked."""
