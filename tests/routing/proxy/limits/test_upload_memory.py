"""The memory of streamed uploads: their share, who ends when it is short, and that others do not notice."""

import asyncio
import json
import socket

import pytest

from routing.http.upstream_connection import UpstreamConnection
from routing.proxy.limits import body_budget
from routing.proxy.limits.body_budget import BodyBudget
from tests.routing.proxy.limits.bodies import MIB, deaf, head, narrow, post, with_memory
from tests.routing.proxy.rig import Client, Replica, Rig, StartRig, unreachable, until

LONG = 8 * MIB
SENT = MIB
"""More than the kernel takes."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "SEARCH_EVERY_S", 0.0)


@pytest.fixture(autouse=True)
def narrow_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes little, and not more and more."""
    made = UpstreamConnection.connection_made

    def connection_made(self: UpstreamConnection, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        made(self, transport)

    monkeypatch.setattr(UpstreamConnection, "connection_made", connection_made)


async def with_two_fleets(start_rig: StartRig, size: int) -> tuple[Rig, Replica, Replica]:
    """The replica of one takes nothing."""
    rig, stuck = await with_memory(start_rig, size)
    stuck.on_connect, stuck.on_data = narrow, deaf
    other = await rig.replica()
    rig.fleet(other, name="g", protocol="openai", default=False)
    return rig, stuck, other


async def uploads(rig: Rig, count: int) -> list[Client]:
    """To the replica that takes nothing."""
    clients = [await rig.client() for _ in range(count)]
    for client in clients:
        client.send(head(LONG, b"/fleets/f/v1/x") + bytes(SENT))
    return clients


async def settled(bodies: BodyBudget, count: int) -> int:
    """The most that is used until so many uploads are stuck, or have ended."""
    most = 0

    def all_stuck() -> bool:
        nonlocal most
        most = max(most, bodies.used)
        upstreams = [charge.owner.upstream for charge in bodies._holding]  # type: ignore[attr-defined]
        stuck = sum(upstream is not None and upstream.write_paused for upstream in upstreams)
        return stuck + bodies.acts[body_budget.STUCK] == count

    await until(all_stuck)
    return most


async def fill(rig: Rig, size: int) -> None:
    """Uploads that are stuck until so much is held."""
    count = 0
    while rig.proxy.bodies.used <= size:
        assert count < 200
        await uploads(rig, 4)
        count += 4
        await settled(rig.proxy.bodies, count)


async def test_uploads_that_are_stuck_stay_within_the_memory(start_rig: StartRig) -> None:
    """And do not take the part of small bodies: others are served."""
    rig, _, _ = await with_two_fleets(start_rig, 2 * MIB)
    await uploads(rig, 60)
    bodies = rig.proxy.bodies
    assert MIB < await settled(bodies, 60) <= 2 * MIB
    small = await rig.client()
    whole = post(50, b"/fleets/g/v1/completions")
    for _ in range(3):
        small.send(whole[:-5])
        await asyncio.sleep(0.02)
        small.send(whole[-5:])
        assert (await small.answer()).status == 200
    assert bodies.acts[body_budget.REFUSED] == 0


async def test_the_one_that_is_stuck_longest_ends(start_rig: StartRig) -> None:
    rig, _, _ = await with_two_fleets(start_rig, MIB)
    bodies = rig.proxy.bodies
    first = (await uploads(rig, 1))[0]
    await until(lambda: bodies.used)
    await asyncio.sleep(0.05)
    others = await uploads(rig, 30)
    answer = await first.answer()
    assert answer.status == 408
    assert json.loads(answer.body)["error"]["code"] == "upload_stalled"
    await settled(bodies, 31)
    assert 0 < bodies.acts[body_budget.STUCK] < 1 + len(others)
    assert len(bodies._holding) == 1 + len(others) - bodies.acts[body_budget.STUCK]


async def test_an_upload_whose_replica_keeps_up_goes_on(start_rig: StartRig) -> None:
    """While others fill what there is, it holds nothing for long."""
    rig, _, other = await with_two_fleets(start_rig, MIB)
    bodies = rig.proxy.bodies
    await uploads(rig, 24)
    await settled(bodies, 24)
    client = await rig.client()
    client.send(head(LONG, b"/fleets/g/v1/x") + bytes(LONG))
    assert (await client.answer()).status == 200
    assert len(other.requests[0].body) == LONG


async def test_stuck_uploads_give_way_to_bodies_that_wait(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "STALLED_S", 0.2)
    rig, _, _ = await with_two_fleets(start_rig, 4 * MIB)
    bodies = rig.proxy.bodies
    await fill(rig, 2 * MIB)
    client = await rig.client()
    client.send(post(3 * MIB // 2).replace(b'"f"', b'"g"'))
    assert (await client.answer()).status == 200
    assert bodies.acts[body_budget.STUCK]


async def test_one_that_waits_for_a_connection_is_read_no_further(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "STALLED_S", 60.0)
    rig, _, _ = await with_two_fleets(start_rig, 8 * MIB)
    with unreachable() as replica:
        rig.fleet(replica, name="h", default=False)
        await fill(rig, 6 * MIB)
        assert rig.proxy.bodies.streams_are_short
        client = await rig.client()
        client.send(head(LONG, b"/fleets/h/v1/x") + b"begun")
        pool = rig.table.fleets["h"]
        await until(lambda: pool.counters.in_flight)
        (waiting,) = (one for one in rig.proxy._clients if getattr(one.exchange, "pool", None) is pool)
        assert not waiting.transport.is_reading()  # type: ignore[attr-defined]
        client.abort()
        await until(lambda: not pool.counters.in_flight)
