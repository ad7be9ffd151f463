"""Worker process: ``python -m routing.worker``, started by the master, connects table, config and proxy.

The package also has the acceptor, and the overload monitor for file descriptors and client connections.
``config`` receives the routing table and sends the telemetry reports.
"""
