"""The worker process: ``python -m routing.worker``, started by the parent, wires table, feed and proxy.

Beside it how clients' connections are taken off the listener, and what is done where descriptors or places
for clients run short.
"""
