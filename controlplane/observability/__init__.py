"""What a process says of itself: metrics, liveness and readiness, heartbeats, request ids, logs.

:mod:`.process` says which process this is. :mod:`.metrics` names every number, and :mod:`.metrics_listener`
serves them with ``/livez`` and ``/readyz``. :mod:`.process_heartbeats` say in Redis that a process lives. The
system page, which gathers all of them, is :mod:`controlplane.system`.
"""
