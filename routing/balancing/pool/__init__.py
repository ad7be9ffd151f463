"""Pool (upstream cluster): the replicas of one fleet in one worker, and picking one for each request.

:class:`routing.balancing.pool.pool.Pool` is the way in, and has all that a usual request needs. The rare
cases are in ``slow_path``, and in ``candidates`` where the picked replica has no slot. ``terms`` is what a
snapshot says about picking, ``endpoint_set`` adds and removes replicas. ``table`` finds the pool for a
request. ``library_calls`` serves the library (:mod:`routing.balancing.balancer`), which has no proxy.
"""
