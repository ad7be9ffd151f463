"""Workers of one simulated proxy: pools that see each other's counters, and what prompts each has sent.

They share the same memory as the processes of a real proxy do (:mod:`routing.shared`).
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack

from routing.balancing.pool.pool import Pool
from routing.contract.table import FleetSnapshot
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters
from routing.simulator.streams import stream


def pools(
    snapshot: FleetSnapshot,
    workers: int,
    share: QuotaShare,
    site: str,
    seed: int,
    name: str,
    resources: ExitStack,
) -> Iterator[Pool]:
    """One of each worker. ``name``: of the proxy's random numbers. ``resources``: to be closed once the pools
    are not used any more. A worker that is alone shares nothing."""
    if workers == 1:
        yield Pool(snapshot, None, stream(seed, name), share, site)
        return
    block = SharedCounters.create(workers, 2 * len(snapshot.replicas) + 64)
    resources.callback(os.close, block.fd)
    prefixes = PrefixMemory.private()
    for number in range(workers):
        rng = stream(seed, f"{name} worker {number}")
        counters = SharedCounters.attach(block.fd, number)
        yield Pool(snapshot, counters, rng, share, site, prefixes=prefixes)
