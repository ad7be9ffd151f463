"""Shared state of the workers of one host, so that a limit or a load applies to all of them.

It has a block of shared memory in which each worker writes its own counters and reads the others'
(``shm_counters``); limits and sliding windows that are kept by such sums; each client key's use of its
limits; the wake-up of one worker by another; and which replica stores a response (``sticky_ids``).
``quota_share`` is this proxy's share of a limit, where several proxies serve the same replicas.
"""
