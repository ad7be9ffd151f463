"""What picking costs: ``python -m tests.benchmarks.picking [--strategies A,B]``.

Prints, for each strategy and pool size, microseconds of CPU for the strategy's loop alone and for
begin + settle together, with 8 requests in flight, with one worker and with a second one beside it
in the shared counts; then for begin + settle where replicas are full (tests/benchmarks/full_pools.py), and
of requests that are due: far from now, so that the strategy's choice stands, and soon, so that all that are
looked at are compared.
Figures are the least and the median of 7 rounds; compare runs of one machine only.
"""

import argparse
import os
import platform
import time
from collections import deque
from functools import partial
from math import inf
from random import Random
from statistics import median

from routing.balancing import strategies
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.due_pick import Due
from routing.balancing.pool.pool import Pool
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.shared.shm_counters import SharedCounters
from tests.benchmarks import full_pools

ROUNDS, REQUESTS, IN_FLIGHT = 7, 20_000, 8
LIMITED = ("least_expected_work", "round_robin")
"""Measured with ``max_concurrency`` set as well: one that weighs the wait, and one that does not."""


def make_pool(strategy: str, size: int, slots: int | None, shared: SharedCounters | None) -> Pool:
    replicas = [
        ReplicaSpec(uid=f"uid-{n}", name=f"r{n}", url=f"http://10.0.{n // 250}.{n % 250 + 1}:8000")
        for n in range(size)
    ]
    policy = Policy(strategy=strategy, max_concurrency=slots)
    snapshot = FleetSnapshot(
        epoch=1, version=1, revision=1, name="f", protocol="generic", policy=policy, replicas=replicas
    )
    return Pool(snapshot, shared, Random(1))


def pick_alone(pool: Pool) -> float:
    """Seconds a pick."""
    pick, candidates, rng = pool.strategy.pick, pool.replicas, Random(1)
    if pool.affinity is not None:
        return pick_near(pool)
    begin = time.process_time()
    for _ in range(REQUESTS):
        pick(candidates, 1.0, 1.0, rng)
    return (time.process_time() - begin) / REQUESTS


def pick_near(pool: Pool) -> float:
    """The same by keys: of a session, or of prompts of 25 blocks of which ten are known everywhere, and 15 at
    one replica for half of the prompts."""
    strategy, candidates, rng = pool.strategy, pool.replicas, Random(1)
    blocks = [rng.getrandbits(64) for _ in range(10)]
    keys = [(*blocks, *(rng.getrandbits(64) for _ in range(15))) for _ in range(2000)]
    for number, key in enumerate(keys):
        if number % 2:
            strategy.remember(candidates[number % len(candidates)], key)
    for replica in candidates:
        strategy.remember(replica, keys[0][:10])
    begin = time.process_time()
    for number in range(REQUESTS):
        strategy.pick_near(candidates, 1.0, 1.0, rng, keys[number % 2000])
    return (time.process_time() - begin) / REQUESTS


def begin_and_settle(pool: Pool) -> float:
    """Seconds a request; 100 µs of pool time pass between two."""
    rng = Random(2)
    held = deque(pool.begin(1.0, 1.0) for _ in range(IN_FLIGHT))
    delays = [0.01 * rng.random() for _ in range(REQUESTS)]
    now, success = 1.0, Outcome.SUCCESS
    begin = time.process_time()
    for delay in delays:
        now += 0.0001
        held.append(pool.begin(1.0, now))
        held.popleft().settle(success, now + delay)
    spent = (time.process_time() - begin) / REQUESTS
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, now)
    return spent


def least_and_median(measure, pool) -> str:
    rounds = sorted(measure(pool) * 1e6 for _ in range(ROUNDS))
    return f"{rounds[0]:6.2f} {median(rounds):6.2f}"


def asked_for() -> list[str]:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.picking", description="What picking costs."
    )
    known = strategies.names()
    parser.add_argument("--strategies", metavar="A,B", default=",".join(known), help="by name; default all")
    names = parser.parse_args().strategies.split(",")
    for name in names:
        if name not in known:
            parser.error(f"--strategies: there is no strategy {name!r}; choose of: {', '.join(known)}")
    return names


def usual(names: list[str]) -> None:
    print(f"{'strategy':22}{'slots':>6}{'replicas':>9}   {'pick':13}   {'begin+settle':13}   of 2 workers")
    for strategy in names:
        for slots in (None, 16) if strategy in LIMITED else (None,):
            for size in (4, 16, 64, 1000):
                alone = make_pool(strategy, size, slots, None)
                alone.refresh(1.0)
                block = SharedCounters.create(workers=2, replicas=1024)
                shared = make_pool(strategy, size, slots, SharedCounters.attach(block.fd, 0))
                figures = [
                    least_and_median(pick_alone, alone),
                    least_and_median(begin_and_settle, alone),
                    least_and_median(begin_and_settle, shared),
                ]
                print(f"{strategy:22}{slots or '-':>6}{size:>9}   {'   '.join(figures)}")


def where_full(names: list[str]) -> None:
    print("\nbegin+settle where replicas are full, by who has a place")
    print(f"{'strategy':22}{'replicas':>9}   " + "   ".join(f"{free:13}" for free in full_pools.FREE))
    for strategy in names:
        for size in full_pools.SIZES:
            pools = [full_pools.make_full(strategy, size, free) for free in full_pools.FREE]
            figures = [least_and_median(full_pools.begin_and_settle, pool) for pool in pools]
            print(f"{strategy:22}{size:>9}   {'   '.join(figures)}")


def make_due(strategy: str, size: int) -> Pool:
    """A pool whose predictions are known: completions and first tokens."""
    pool, now = make_pool(strategy, size, None, None), 1.0
    for number in range(100):
        attempt = pool.begin(1.0, now, due=Due(now + 60.0))
        attempt.heard(now + 0.002, 1)
        attempt.settle(Outcome.SUCCESS, now + 0.010 + 0.0001 * (number % 50), 10)
        now += 0.5
    pool.refresh(now)
    return pool


def begin_due(pool: Pool, left_s: float, first_token_s: float) -> float:
    """Seconds a request, as :func:`begin_and_settle`, of those that are due."""
    now, cancelled = 60.0, Outcome.PREVENTED
    begin = time.process_time()
    for _ in range(REQUESTS // 4):
        now += 0.0001
        pool.begin(1.0, now, due=Due(now + left_s, now + first_token_s)).settle(cancelled, now)
    return (time.process_time() - begin) / (REQUESTS // 4)


def where_due(names: list[str]) -> None:
    print("\nbegin+settle of requests that are due")
    print(f"{'strategy':22}{'replicas':>9}   {'in 60 s':13}   {'soon':13}   first token, soon")
    for strategy in names:
        for size in (16, 64, 1000):
            pool = make_due(strategy, size)
            figures = [
                least_and_median(partial(begin_due, left_s=left_s, first_token_s=first_s), pool)
                for left_s, first_s in ((60.0, inf), (0.011, inf), (60.0, 0.0021))
            ]
            print(f"{strategy:22}{size:>9}   {'   '.join(figures)}")


def main() -> None:
    names = asked_for()
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.machine()}; µs: least, median"
    )
    usual(names)
    where_full(names)
    where_due(names)


if __name__ == "__main__":
    main()
