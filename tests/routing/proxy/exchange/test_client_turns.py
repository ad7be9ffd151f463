"""Clients take turns in the queue: by their keys, where keys are in use, else by address."""

from collections.abc import Callable

import pytest

from routing.contract.table import KeyLimits
from routing.contract.trusted_proxies import TrustedProxies
from tests.routing.proxy.auth.key_limits.limited_keys import KEY, OTHER, get, in_force
from tests.routing.proxy.exchange.queueing import Gate, clients, code, one
from tests.routing.proxy.rig import Client, Rig, until


async def busy(rig: Rig, heavy: int, ask: Callable[[bytes, bytes], bytes], **fields: object) -> tuple:
    """A replica with one slot that is taken, and so many requests of a first client that wait for it."""
    gate = await one(rig, **fields)
    several = await clients(rig, heavy + 3)
    several[0].send(ask(b"/busy", KEY))
    await until(lambda: gate.serving)
    for number in range(heavy):
        await waits(rig, several[number + 1], ask(b"/heavy/%d" % number, KEY), number + 1)
    return gate, several


async def waits(rig: Rig, client: Client, request: bytes, waiting: int) -> None:
    client.send(request)
    line = rig.table.fleets["f"].admission.queue
    await until(lambda: len(line) == waiting)


async def order(gate: Gate, waiting: list[Client]) -> list[bytes]:
    """Who is served, until all are."""
    for _ in range(len(waiting) + 1):
        await until(lambda: gate.serving)
        gate.release()
    for client in waiting:
        assert (await client.answer()).status == 200
    return gate.served[1:]


async def test_a_keys_request_does_not_wait_for_all_that_another_key_has_sent_before(rig: Rig) -> None:
    in_force(rig, KeyLimits(id="web"))
    gate, several = await busy(rig, 5, lambda path, key: get(path, key=key))
    await waits(rig, several[6], get(b"/light", key=OTHER), 6)
    assert (await order(gate, several[1:7]))[:2] == [b"/heavy/0", b"/light"]


async def test_a_key_of_more_weight_has_more_turns(rig: Rig) -> None:
    in_force(rig, KeyLimits(id="web", weight=3.0))
    gate, several = await busy(rig, 6, lambda path, key: get(path, key=key))
    extra = await clients(rig, 6)
    for number, client in enumerate(extra):
        await waits(rig, client, get(b"/other/%d" % number, key=OTHER), 7 + number)
    served = await order(gate, several[1:7] + extra)
    assert sum(target.startswith(b"/heavy") for target in served[:8]) == 6


async def test_a_key_that_nobody_checks_is_no_clients_name(rig: Rig) -> None:
    """Without keys in force a client could present a new one with each request."""
    gate, several = await busy(rig, 3, lambda path, key: get(path, key=key))
    await waits(rig, several[4], get(b"/light", key=OTHER), 4)
    assert (await order(gate, several[1:5]))[-1] == b"/light"


@pytest.mark.parametrize(
    ("mine", "other", "turn"),
    [("10.0.0.1", "10.0.0.2", 1), ("10.0.0.1", "10.0.0.1", 4), ("2001:db8::1", "2001:db8::2", 4),
     ("2001:db8::1", "2001:db8:0:1::1", 1)],
)  # fmt: skip
async def test_without_keys_it_is_by_address(rig: Rig, mine: str, other: str, turn: int) -> None:
    rig.proxy.stand_behind(TrustedProxies(["127.0.0.1"]), False)

    def ask(path: bytes, address: bytes) -> bytes:
        who = mine if address == KEY else other
        return b"GET %b HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: %b\r\n\r\n" % (path, who.encode())

    gate, several = await busy(rig, 4, ask)
    await waits(rig, several[5], ask(b"/light", OTHER), 5)
    assert (await order(gate, several[1:6])).index(b"/light") == turn


async def test_a_full_queue_has_room_for_another_key(rig: Rig) -> None:
    in_force(rig, KeyLimits(id="web"))
    gate, several = await busy(rig, 3, lambda path, key: get(path, key=key), queue={"size": 3})
    several[4].send(get(b"/light", key=OTHER))
    answer = await several[3].answer()
    assert (answer.status, code(answer)) == (503, "queue_full")
    assert b"of a client with less in it" in answer.body
    assert await order(gate, [several[1], several[2], several[4]]) == [b"/heavy/0", b"/light", b"/heavy/1"]
