"""Load balancing: which replica gets a request.

Time and randomness are arguments. Nothing here waits or does I/O, except for lines in the log. So the same
code runs in the proxy, in virtual time (:mod:`routing.simulator`) and as a library. Only ``balancer`` and
``pool.library_calls`` have a clock and locks. Pools keep state, and share some of it with the host's other
workers through shared memory (:mod:`routing.shared.shm_counters`).

What stands on what, from above: ``balancer`` (the pool as a library), ``pool`` (a fleet in one worker),
``admission`` and ``locality``, ``outlier``, ``attempt`` (one request at one replica), ``strategies`` and
``learning``, ``replica`` (one replica's live state), ``affinity``.
"""
