"""The worker process: ``python -m routing.worker``, started by the parent, joins table, config and proxy.

Beside it the acceptor, and the overload monitor for when descriptors or client connections run short.
``config`` is what it hears (table) and reports (telemetry).
"""
