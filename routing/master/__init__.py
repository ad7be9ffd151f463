"""Master process (nginx, HAProxy): sockets, signals, workers, rolling restart, upgrade, admin server."""
