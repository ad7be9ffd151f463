"""Load balancing: who gets the request. Pure: time and chance are arguments, and nothing here does I/O.

What stands on what, from above: ``balancer`` (the pool as a library), ``pool`` (a fleet in one worker),
``admission`` and ``locality``, ``outlier``, ``attempt`` (one request at one replica), ``strategies`` and
``learning``, ``replica`` (one replica's live state), ``affinity``.
"""
