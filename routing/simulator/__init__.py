"""What a strategy does to latency, found out in virtual time with the proxy's own objects.

Requests arrive (:mod:`routing.simulator.workloads`) at proxies (:mod:`routing.simulator.proxies`), each of
which has a real :class:`routing.balancing.pool.pool.Pool` with its strategy, guards and waiting line, and are
served by models of servers. Only time, network and servers are simulated.
"""
