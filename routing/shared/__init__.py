"""Shared state of the workers of one host, so that a limit or a load applies to all of them.

``shm_counters``: a block of shared memory in which each worker writes its own counters and reads the others'.
``limits``, ``sliding_window``: concurrency and rate limits, enforced by sums of such counters. ``key_quota``:
the limits of one client key. ``worker_wakeup``: one worker wakes another. ``sticky_ids``: which replica
stores a response. ``quota_share``: this proxy's share of a limit, where several proxies serve the same
replicas.
"""
