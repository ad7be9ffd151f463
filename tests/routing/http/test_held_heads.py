"""Held heads: a head goes out with the first bytes of its body, or alone when these are not there in time."""

import asyncio

import pytest

from routing.http import held_heads
from routing.http.held_heads import HOLD_S, HeldHeads
from tests.clock import Clock
from tests.fuzzing.wire import Transport, Wire

ASK = b'{"model": "m", "stream": true}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(ASK), ASK)
HEAD = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"data: {}\n\n"
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Noting(Transport):
    """Keeps the writes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.writes.append(bytes(data))


class Holder:
    """Notes when its head was released."""

    def __init__(self) -> None:
        self.held_until = 0.0
        self.released: list[float] = []

    def release_head(self, now: float) -> None:
        self.held_until = 0.0
        self.released.append(now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(held_heads, "monotonic", clock)
    return clock


class Loop:
    """Takes timers, and calls them when told to."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.timers: list[tuple[float, object]] = []

    def call_later(self, delay: float, callback: object) -> None:
        self.timers.append((self.clock.now + delay, callback))

    def move(self, seconds: float) -> None:
        self.clock.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.clock.now + 1e-9]
        for timer in due:
            self.timers.remove(timer)
            timer[1]()  # type: ignore[operator]


def test_one_timer_releases_each_in_its_time_and_passes_over_those_whose_body_came(clock: Clock) -> None:
    loop = Loop(clock)
    heads = HeldHeads(loop)  # type: ignore[arg-type]
    first, served, last = Holder(), Holder(), Holder()
    heads.hold(first, clock.now)
    heads.hold(served, clock.now)
    loop.move(HOLD_S / 2)
    served.held_until = 0.0
    heads.hold(last, clock.now)
    assert len(loop.timers) == 1
    loop.move(HOLD_S / 2)
    assert (len(first.released), served.released, last.released) == (1, [], [])
    loop.move(HOLD_S / 2)
    assert len(last.released) == 1
    assert loop.timers == []


def test_no_timer_is_set_for_heads_whose_body_came(clock: Clock) -> None:
    loop = Loop(clock)
    heads = HeldHeads(loop)  # type: ignore[arg-type]
    first, second = Holder(), Holder()
    heads.hold(first, clock.now)
    loop.move(HOLD_S / 2)
    heads.hold(second, clock.now)
    first.held_until = second.held_until = 0.0
    loop.move(HOLD_S / 2)
    assert loop.timers == []
    heads.hold(first, clock.now)
    loop.move(HOLD_S)
    assert len(first.released) == 1


def test_one_that_fails_keeps_none_of_the_others(clock: Clock) -> None:
    class Failing(Holder):
        def release_head(self, now: float) -> None:
            raise ValueError("mine")

    loop = Loop(clock)
    heads = HeldHeads(loop)  # type: ignore[arg-type]
    other = Holder()
    heads.hold(Failing(), clock.now)
    heads.hold(other, clock.now)
    with pytest.raises(ValueError, match="mine"):
        loop.move(HOLD_S)
    loop.move(HOLD_S)
    assert len(other.released) == 1


def opened(wire: Wire) -> tuple[asyncio.Protocol, Noting, asyncio.Protocol, Transport]:
    """A client that has asked, and the replica's connection that has the request."""
    client, transport = wire.proxy.connection(), Noting()
    client.connection_made(transport)
    ((replica, link),) = wire.replicas(1)
    client.data_received(REQUEST)
    wire.settle()
    return client, transport, replica, link


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4)])
async def test_head_and_first_bytes_go_out_in_one_write(cuts: tuple[int, ...]) -> None:
    """Also where the first bytes are no whole chunk."""
    wire = Wire()
    _, transport, replica, _ = opened(wire)
    replica.data_received(HEAD)
    wire.settle()
    assert transport.writes == []
    for start, stop in zip((0, *cuts), (*cuts, len(CHUNK)), strict=True):
        replica.data_received(CHUNK[start:stop])
        wire.settle()
    first = transport.writes[0]
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not first.endswith(b"\r\n\r\n")
    replica.data_received(DONE)
    wire.settle()
    assert bytes(transport.written).endswith(b"0\r\n\r\n")
    assert wire.is_idle(replica)  # type: ignore[arg-type]
    await asyncio.sleep(HOLD_S * 2)
    assert bytes(transport.written).count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("method", "head"),
    [
        (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"GET", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (b"GET", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HEAD", HEAD),
    ],
)
async def test_other_heads_go_out_at_once(method: bytes, head: bytes) -> None:
    wire = Wire()
    client, transport = wire.client()
    ((replica, _),) = wire.replicas(1)
    client.data_received(method + b" /x HTTP/1.1\r\nHost: a\r\n\r\n")
    wire.settle()
    replica.data_received(head)
    wire.settle()
    assert transport.written.startswith(head[:12])


async def test_a_client_that_leaves_meanwhile_harms_nobody() -> None:
    wire = Wire()
    client, transport, replica, link = opened(wire)
    replica.data_received(HEAD)
    client.connection_lost(None)
    assert link.aborted
    replica.connection_lost(None)
    await asyncio.sleep(HOLD_S * 3)
    assert transport.written == b""
