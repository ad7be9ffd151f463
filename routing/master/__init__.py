"""The master process: sockets, signals, workers, rolling restarts, upgrade, admin server, standalone."""
