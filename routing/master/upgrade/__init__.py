"""Binary upgrade (Envoy: hot restart) without a lost connection: a new master inherits the sockets."""
