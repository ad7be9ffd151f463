"""Memory for bodies whose fleet the head names: they are not refused while others are being collected."""

import asyncio
import json

import pytest

from routing.proxy.limits import body_budget
from routing.proxy.limits.body_budget import REFUSED, BodyBudget
from tests.routing.proxy.limits.bodies import MIB, chat, head, post, with_memory
from tests.routing.proxy.rig import Client, Rig, StartRig, until

MEMORY = 460_000


async def half_bodies(rig: Rig) -> list[Client]:
    """Of unknown fleets. They hold all that there is for such."""
    clients = [await rig.client() for _ in range(6)]
    for client in clients:
        client.send(post(60_000)[:-1])
    await until(lambda: rig.proxy.bodies.used >= 350_000)
    return clients


async def refused_of(clients: list[Client], bodies: BodyBudget) -> int:
    """How many of the half bodies have had their 503; the others are completed."""
    refused = bodies.acts[REFUSED]
    for client in clients[: len(clients) - refused]:
        client.send(b"}")
        assert (await client.answer()).status == 200
    for client in clients[len(clients) - refused :]:
        assert (await client.answer()).status == 503
    return refused


async def test_one_that_is_streamed(start_rig: StartRig) -> None:
    """Nobody gives way for it."""
    rig, _ = await with_memory(start_rig, MEMORY)
    half = await half_bodies(rig)
    client = await rig.client()
    client.send(head(100_000, b"/fleets/f/v1/x") + bytes(50_000))
    await asyncio.sleep(0.05)
    client.send(bytes(50_000))
    assert (await client.answer()).status == 200
    assert await refused_of(half, rig.proxy.bodies) == 0


async def test_one_that_is_whole(start_rig: StartRig) -> None:
    """Also of an unknown fleet: those that began last, and are not whole, give way."""
    rig, replica = await with_memory(start_rig, MEMORY)
    half = await half_bodies(rig)
    client = await rig.client()
    client.send(post(60_000))
    assert (await client.answer()).status == 200
    assert replica.requests[0].body == chat(60_000)
    assert await refused_of(half, rig.proxy.bodies) == 1


async def test_one_that_is_collected(start_rig: StartRig) -> None:
    rig, _ = await with_memory(start_rig, MEMORY)
    half = await half_bodies(rig)
    client = await rig.client()
    whole = post(60_000, b"/fleets/f/v1/chat/completions")
    client.send(whole[:-5])
    await asyncio.sleep(0.05)
    client.send(whole[-5:])
    assert (await client.answer()).status == 200
    assert await refused_of(half, rig.proxy.bodies) == 1


async def test_it_waits_for_room(start_rig: StartRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first byte, where there is none for large ones to begin."""
    monkeypatch.setattr(body_budget, "STALLED_S", 60.0)
    rig, replica = await with_memory(start_rig, 16 * MIB)
    rig.fleet(replica, name="g", served_model="other", protocol="openai", aliases=("h",), default=False)
    first, second = await rig.client(), await rig.client()
    first.send(post(8 * MIB)[:-1])
    await until(lambda: rig.proxy.bodies.used == 8 * MIB - 1)
    rig.proxy.bodies.set(10 * MIB)
    body = json.dumps({"model": "h", "prompt": "x" * 4 * MIB}).encode()
    second.send(head(len(body), b"/fleets/g/v1/completions") + body)
    await until(lambda: rig.proxy.bodies.waiting)
    first.send(b"}")
    assert (await first.answer()).status == 200
    assert (await second.answer()).status == 200
    assert rig.proxy.bodies.acts[REFUSED] == 0
