"""Discrete-event simulator: what a strategy does to latency, in virtual time, with the proxy's own objects.

Requests arrive (:mod:`routing.simulator.workloads`) at proxies (:mod:`routing.simulator.proxies`), each of
which has a real :class:`routing.balancing.pool.pool.Pool` with its strategy, limits and queue, and are
served by models of servers. Only time, network and servers are simulated.
"""
