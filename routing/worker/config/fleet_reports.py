"""Fleet reports: the counters of all fleets for a worker's report, of a large table in slices.

The counters of a replica take some microseconds to bring up to date and to encode. Those of thousands are
encoded some at a time, and requests are served in between. The fleet's own counters are read last, in the
step that encodes the report. All are cumulative: what is counted meanwhile is in the next report.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.telemetry import FleetCounters, ReplicaCounters
from routing.worker.config.kept_counters import KeptCounters

AT_ONCE = 200
"""Replicas: some 0.5 ms."""


async def refreshed(pools: Iterable[Pool]) -> None:
    """Bring pools up to date."""
    done = 0
    for pool in list(pools):
        while pool.refresh_some(time.monotonic()):  # noqa: ASYNC110 (it does work each time)
            await asyncio.sleep(0)
        done += len(pool.replicas)
        if done >= AT_ONCE:
            done = 0
            await asyncio.sleep(0)


async def fleet_reports(
    pools: Mapping[str, Pool], refused: Mapping[str, str], kept: KeptCounters
) -> list[FleetCounters]:
    """The counters of each fleet; encode them before the next request is served. ``refused``: by fleet, why
    its newest table was. ``kept``: of large tables, from report to report."""
    await refreshed(pools.values())
    encoded: dict[Pool, list[ReplicaCounters]] = {}
    if (replicas := sum(len(pool.replicas) for pool in pools.values())) > AT_ONCE:
        encoded = {pool: await _encoded(pool.reported, pool.speed, kept) for pool in list(pools.values())}
        kept.forget_beyond(replicas)
    now = time.monotonic()
    return [pool.report(now, refused.get(name, ""), encoded.get(pool)) for name, pool in pools.items()]


async def _encoded(replicas: list[Replica], speed: FleetSpeed, kept: KeptCounters) -> list[ReplicaCounters]:
    """Their counters as they stand in the report."""
    found: list[msgspec.Raw] = []
    for at in range(0, len(replicas), AT_ONCE):
        now = time.monotonic()
        some = replicas[at : at + AT_ONCE]
        found += [kept.encoded(replica, speed, now) for replica in some]
        await asyncio.sleep(0)
    return cast("list[ReplicaCounters]", found)
