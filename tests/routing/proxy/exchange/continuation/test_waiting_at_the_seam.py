"""A stream that broke off waits for a slot, and the fleet changes meanwhile."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace

from routing.contract.policy import Queue
from tests.routing.proxy.exchange.continuation.telling import in_pool, parts, request
from tests.routing.proxy.rig import Client, Rig, until


def _new_table(rig: Rig, version_of_old: str, *more: str) -> None:
    """With one slot at each replica; ``more``: versions of further ones, which listen at the last URL."""
    old = rig.table.fleets["f"].snapshot
    specs = [replace(spec, max_concurrency=1, version=version_of_old) for spec in old.replicas]
    for number, version in enumerate(more):
        name = f"more{number}"
        specs.append(replace(specs[1], uid=f"f-{name}", name=name, url=rig.replicas[-1].url, version=version))
    rig.table.apply_snapshot(replace(old, version=old.version + 1, replicas=specs))


async def _waits(rig: Rig, client: Client, fields: bytes = b"", **policy: Any) -> None:
    """A stream has broken off, and the only other replica is full. ``fields``: of its request's header."""
    told = await parts(rig, **policy)
    _new_table(rig, "")
    for part in told[:2]:
        part.events, part.breaks = 4, "silent"
    client.send(request().replace(b"Host", fields + b"Host", 1))
    await told[0].told.wait()
    server = next(one for one in rig.replicas if one.requests)
    other = await rig.client()
    other.send(request())
    await told[1].told.wait()
    await until(lambda: all(one.in_flight for one in in_pool(rig)))
    lost = next(one for one in in_pool(rig) if one.spec.url == server.url)
    await server.stop()
    await until(lambda: not lost.in_flight)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("why", ["version", "trial", "version of the old ones"])
async def test_a_replica_that_is_new_says_on_only_if_it_can(
    rig: Rig, client: Client, why: str, fits: bool
) -> None:
    await _waits(rig, client)
    new = await rig.replica("new")
    new.script = rig.replicas[-2].script
    is_old = fits or why == "trial"
    _new_table(rig, "2" if why == "version of the old ones" else "", "" if is_old else "2")
    pool = rig.table.fleets["f"]
    trial = in_pool(rig)[-1].continuation
    trial.chats = fits or why != "trial"
    trial.due = monotonic() + 60
    end = monotonic() + (5 if fits else 0.5)
    while monotonic() < end and not new.requests:
        pool.refresh(monotonic())
        await asyncio.sleep(0.02)
    assert bool(new.requests) is fits
    client.abort()
    await until(lambda: pool.counters.in_flight == 1)


async def test_a_client_that_waits_no_longer_is_no_error_of_the_fleet(rig: Rig, client: Client) -> None:
    await _waits(rig, client, b"X-Request-Timeout-Ms: 2500\r\n")
    counters = rig.table.fleets["f"].counters
    answering = asyncio.create_task(client.answer(b"POST"))
    while not answering.done():
        rig.table.fleets["f"].refresh(monotonic())
        await asyncio.sleep(0.02)
    answer = answering.result()
    assert not answer.complete
    assert (counters.cancelled, counters.errors, counters.in_flight) == (1, 0, 1)


@pytest.mark.parametrize("size", [0, 10])
async def test_one_that_finds_no_slot_ends_with_an_error_event(rig: Rig, client: Client, size: int) -> None:
    """There is no queue, or it keeps nobody so long."""
    await _waits(rig, client, queue=Queue(size=size, timeout_s=0.3))
    pool = rig.table.fleets["f"]
    answering = asyncio.create_task(client.answer(b"POST"))
    while not answering.done():
        pool.refresh(monotonic())
        await asyncio.sleep(0.02)
    last = answering.result().body.rpartition(b"data: ")[2]
    assert b"no other replica had a free slot in time" in last
    assert pool.counters.not_continued == {"no_place": 1}
    assert (pool.counters.errors, pool.counters.in_flight) == (1, 1)
