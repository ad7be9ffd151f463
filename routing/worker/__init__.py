"""The worker process: ``python -m routing.worker``, started by the master, joins table, config and proxy.

The package also has the acceptor, and the overload monitor for when descriptors or client connections run
short. ``config`` has the worker's inputs (table) and reports (telemetry).
"""
