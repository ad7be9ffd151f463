"""Load balancing: who gets the request.

Time is an argument, and so is the source of chance; nothing here waits or does I/O, but for a line in the
log. So the same code runs in the proxy, in virtual time (:mod:`routing.simulator`) and as a library:
``balancer`` and ``pool.library_calls`` alone have a clock and locks. Pools keep state, and share some with
the host's other workers by way of memory (:mod:`routing.shared.shm_counters`).

What stands on what, from above: ``balancer`` (the pool as a library), ``pool`` (a fleet in one worker),
``admission`` and ``locality``, ``outlier``, ``attempt`` (one request at one replica), ``strategies`` and
``learning``, ``replica`` (one replica's live state), ``affinity``.
"""
