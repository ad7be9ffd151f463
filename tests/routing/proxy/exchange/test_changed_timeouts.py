"""Time limits change while connections are open: for requests on their way, and for the next ones."""

import asyncio
import time

import pytest

from routing.balancing.replica.state import Replica as ReplicaInPool
from routing.contract.policy import Policy, Timeouts
from tests.routing.proxy.rig import (
    OK,
    OK_ANSWER,
    Answer,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    unreachable,
    until,
)

BODY = b'{"model": "f", "stream": true}'
STREAMED = b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
UNHELD = STREAMED.replace(b"/v1/completions", b"/v1/other", 1)
"""To a path whose answers are forwarded as they come."""
SOON_S = 0.1
LATE_S = 60.0


def limited(rig: Rig, *replicas: Replica, **timeouts: float) -> None:
    """From now on the fleet has these limits."""
    settings = Policy(strategy="round_robin", slow_start_s=0, timeouts=Timeouts(**timeouts))
    rig.fleet(*replicas, policy=settings, protocol="openai")


class Slow:
    """A replica that answers at once, or else says only the beginning until it is let go on."""

    def __init__(self, replica: Replica, beginning: bytes) -> None:
        self.replica = replica
        self.beginning = beginning
        self.gate = asyncio.Event()
        replica.script = self.script

    async def script(self, connection: ReplicaConnection, seen: Seen) -> None:
        write = connection.transport.write
        if not self.gate.is_set():
            write(self.beginning)
            await self.gate.wait()
            if not connection.closed:
                write(OK_ANSWER[len(self.beginning) :])
        else:
            write(OK_ANSWER)

    async def asked(self, client: Client) -> None:
        """The client's request is here, or its answer has begun."""
        before = len(self.replica.requests)
        client.send(UNHELD if self.beginning else STREAMED)
        await until(lambda: len(self.replica.requests) > before)
        await asyncio.sleep(0.02)


BEGUN = OK + b"Content-Length: 2\r\n\r\no"
LIMITS = {
    "first_byte_s": (b"", b"sent nothing for 0.1 s"),
    "idle_s": (BEGUN, b""),
    "total_s": (b"", b"longer than its limit of 0.1 s"),
    "total_s of an answer that goes on": (BEGUN, b""),
}


@pytest.mark.parametrize("name", LIMITS)
async def test_shorter_and_longer(rig: Rig, name: str) -> None:
    beginning, words = LIMITS[name]
    limit = name.split()[0]
    slow = Slow(await rig.replica(), beginning)
    limited(rig, slow.replica, **{limit: LATE_S})
    under_way, next_one, patient = [await rig.client() for _ in range(3)]

    def is_cut(answer: Answer) -> bool:
        return not answer.complete if beginning else (answer.status == 504 and words in answer.body)

    slow.gate.set()
    for client in (next_one, patient):
        assert (await client.ask(STREAMED)).status == 200
    slow.gate.clear()
    await slow.asked(under_way)
    limited(rig, slow.replica, **{limit: SOON_S})
    # On its way, and then the next one on a connection that was open before.
    assert is_cut(await under_way.answer(limit_s=1.5))
    await slow.asked(next_one)
    assert is_cut(await next_one.answer(limit_s=1.5))
    await slow.asked(patient)
    limited(rig, slow.replica, **{limit: LATE_S})
    await asyncio.sleep(SOON_S + 0.12)
    slow.gate.set()
    assert (await patient.answer()).body == b"ok"


async def test_connecting(rig: Rig) -> None:
    good = await rig.replica()
    with unreachable() as bad:
        limited(rig, bad, connect_s=LATE_S)
        under_way, next_one = await rig.client(), await rig.client()
        under_way.send(STREAMED)
        await until(lambda: rig.table.fleets["f"].replicas[0].in_flight)
        limited(rig, bad, good, connect_s=SOON_S)
        answer = await under_way.answer(limit_s=1.5)
        assert answer.get(b"x-switchyard-retry-reason") == [b"connect_timeout"]
        assert answer.get(b"x-switchyard-replica") == [good.name.encode()]
        limited(rig, bad, connect_s=SOON_S)
        answer = await next_one.ask(STREAMED)
        assert (answer.status, b"no connection within 0.1 s" in answer.body) == (503, True)


async def test_retries_share_the_one_deadline(rig: Rig) -> None:
    """Two replicas cannot be reached, and each would take nearly the whole time."""
    with unreachable() as first, unreachable() as second:
        second.name = "second"
        limited(rig, first, second, connect_s=0.3, total_s=0.5)
        client = await rig.client()
        began = time.monotonic()
        answer = await client.ask(STREAMED)
        assert time.monotonic() - began < 2.0
        assert (answer.status, b"longer than its limit of 0.5 s" in answer.body) == (504, True)
        assert answer.get(b"x-switchyard-retries") == [b"1"]


async def test_a_silent_replica_is_ejected_and_its_requests_go_on(rig: Rig) -> None:
    """``stall_s``: what it means, and that it follows the policy."""
    slow, other = Slow(await rig.replica(), b""), await rig.replica()
    limited(rig, slow.replica, other, stall_s=LATE_S)
    clients = [await rig.client() for _ in range(2)]
    for client in clients:
        client.send(STREAMED)
    await until(lambda: slow.replica.requests)
    await asyncio.sleep(SOON_S + 0.05)
    stalled = rig.table.fleets["f"].replicas[0]
    refresh(rig)
    assert not stalled.ejection.until
    limited(rig, slow.replica, other, stall_s=SOON_S)
    refresh(rig)
    assert stalled.ejection.until
    assert stalled.ejection.reason.startswith("stalled: nothing heard")
    asked = len(slow.replica.requests)
    client = await rig.client()
    for _ in range(3):
        assert (await client.ask(STREAMED)).get(b"x-switchyard-replica") == [other.name.encode()]
    slow.gate.set()
    for client in clients:
        assert (await client.answer()).body == b"ok"
    assert len(slow.replica.requests) == asked
    # It has answered after all.
    refresh(rig)
    assert not stalled.ejection.until


UPLOAD = b"PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n"


async def uploads(rig: Rig, client: Client, beginning: bytes) -> ReplicaInPool:
    """The replica that is asked."""
    replicas = rig.table.fleets["f"].replicas
    client.send(beginning)
    await until(lambda: any(replica.in_flight for replica in replicas))
    return next(replica for replica in replicas if replica.in_flight)


async def test_a_replica_that_waits_for_an_upload_is_not_silent(rig: Rig) -> None:
    """It is judged once it has the whole request."""
    slow = [Slow(await rig.replica(), b"") for _ in range(2)]
    limited(rig, *(one.replica for one in slow), stall_s=SOON_S)
    client = await rig.client()
    asked = await uploads(rig, client, UPLOAD % 9 + b"1")
    for piece in (b"23", b"4567", b"89"):
        await asyncio.sleep(SOON_S + 0.05)
        refresh(rig)
        assert (asked.in_flight, asked.ejection.until) == (1, 0)
        client.send(piece)
    await until(lambda: not asked.stall_exempt)
    refresh(rig)
    assert not asked.ejection.until
    await asyncio.sleep(SOON_S + 0.05)
    refresh(rig)
    assert asked.ejection.until
    for one in slow:
        one.gate.set()
    assert (await client.answer()).status == 200
    assert (asked.in_flight, asked.stall_exempt) == (0, 0)


async def test_a_replica_that_takes_no_more_of_an_upload_is_silent(rig: Rig) -> None:
    stuck = [await rig.replica() for _ in range(2)]
    for one in stuck:
        one.on_data = lambda connection, data: connection.transport.pause_reading()
    limited(rig, *stuck, stall_s=SOON_S)
    client = await rig.client()
    asked = await uploads(rig, client, UPLOAD % (64 << 20) + bytes(32 << 20))
    await until(lambda: not asked.stall_exempt)
    await asyncio.sleep(SOON_S + 0.05)
    refresh(rig)
    assert asked.ejection.until
    client.abort()
    await until(lambda: not asked.in_flight)
    assert asked.stall_exempt == 0


def refresh(rig: Rig) -> None:
    """What the next request or report does."""
    rig.table.fleets["f"].refresh(time.monotonic())
