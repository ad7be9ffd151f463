"""What begin and settle cost where replicas are full, so that another than the one picked has to be found.

Part of ``python -m tests.benchmarks.picking``. Each replica serves 4 requests at once, and all are full but
for one place at each of some. Of the last three columns half of the replicas are at another site than the
proxy.
"""

import time
from collections.abc import Callable
from random import Random

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import ANY_SLOT, Pool
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, ReplicaSpec

SLOTS, REQUESTS = 4, 1000
SIZES = (16, 1000)
FREE: dict[str, Callable[[int], bool]] = {
    "all": lambda at: True,
    "half": lambda at: at % 4 < 2,
    "5 %": lambda at: at % 40 < 2,
    "three": lambda at: at < 3,
    "none": lambda at: False,
    "far half": lambda at: at % 4 == 1,
    "far 5 %": lambda at: at % 40 == 1,
    "own 5 %": lambda at: at % 2 == 1 or at % 40 == 0,
}
"""Column → which replicas have a place, by their numbers. Odd ones are far, where sites matter."""
SITES = ("far half", "far 5 %", "own 5 %")
"""Where nobody at the own site has a place, and where few have."""


def make_full(strategy: str, size: int, free: str) -> Pool:
    """A pool that requests have filled, some of which have ended since."""
    sites = ("own", "far") if free in SITES else ("",)
    replicas = [
        ReplicaSpec(uid=f"uid-{at}", name=f"r{at}", url=f"http://r{at}:8000", site=sites[at % len(sites)])
        for at in range(size)
    ]
    policy = Policy(strategy=strategy, max_concurrency=SLOTS)
    snapshot = FleetSnapshot(
        epoch=1, version=1, revision=1, name="f", protocol="generic", policy=policy, replicas=replicas
    )
    pool = Pool(snapshot, None, Random(1), site=sites[0])
    held = []
    while isinstance(found := pool.begin(1.0, 1.0, turn=ANY_SLOT), Attempt):
        held.append(found)
    assert len(held) == SLOTS * size
    to_free = {replica for at, replica in enumerate(pool.replicas) if FREE[free](at)}
    for attempt in held:
        if attempt.replica in to_free:
            to_free.remove(attempt.replica)
            attempt.settle(Outcome.CANCELLED, 1.0)
    return pool


def begin_and_settle(pool: Pool) -> float:
    """Seconds a request, each the only one of its session or prompt; 100 µs of pool time pass between two."""
    rng, now, cancelled = Random(2), 2.0, Outcome.CANCELLED
    keys = [(rng.getrandbits(64),) for _ in range(REQUESTS)]
    pool.refresh(now)
    begin = time.process_time()
    for key in keys:
        now += 0.0001
        found = pool.begin(1.0, now, key=key)
        if isinstance(found, Attempt):
            found.settle(cancelled, now)
    return (time.process_time() - begin) / REQUESTS
