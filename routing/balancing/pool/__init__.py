"""Pool (upstream cluster): a fleet in one worker: its replicas, and who of them gets the next request.

:class:`routing.balancing.pool.pool.Pool` is the way in, and all that a usual request needs. The rare ways are
beside it: ``slow_path``, and ``candidates`` where the replica that was picked has no slot. ``terms`` is what
a snapshot says of picking, ``endpoint_set`` who comes and goes. ``table`` finds the pool that a request is
for; ``library_calls`` are for the library (:mod:`routing.balancing.balancer`), which has no proxy.
"""
