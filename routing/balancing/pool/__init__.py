"""Pool (upstream cluster): a fleet in one worker: its replicas, and who of them gets the next request.

:class:`routing.balancing.pool.pool.Pool` is the way in, and all that a usual request needs. The rare ways are
beside it: no free place (``admission``), no replica at the first try (``placing``), sites, replicas that come
and go (``members``), what live traffic says of them (``verdicts``). ``table`` finds the pool that a request
is for; ``calls`` are for the library (:mod:`routing.balancing.balancer`), which has no proxy.
"""
