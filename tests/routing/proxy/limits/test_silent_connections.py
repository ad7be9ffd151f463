"""Connections that were opened and send nothing: many of them make room, a few are somebody's who is about to
send."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from routing.proxy.limits import connection_limit
from routing.proxy.limits.connection_limit import SILENT, ConnectionLimit
from routing.proxy.limits.silent_connections import PART, SEARCH_S_EACH, SilentConnections
from routing.proxy.settings import ProxySettings
from tests.routing.proxy.conftest import StartRig
from tests.routing.proxy.rig import Client, Replica, Rig, until

GET = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"


def places(rig: Rig, most: int) -> ConnectionLimit:
    rig.proxy.connection_limit.set(most, sys.maxsize)
    return rig.proxy.connection_limit


async def asked(rig: Rig) -> Client:
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    return client


async def test_a_flood_gives_way_before_anybody_is_refused(rig: Rig, replica: Replica) -> None:
    """Also before one that is kept alive, though that has been idle for longer."""
    limit = places(rig, 50)
    kept = await asked(rig)
    flood = []
    for _ in range(120):
        flood.append(await rig.client())
        await asyncio.sleep(0.001)
    for _ in range(10):
        assert (await (await rig.client()).ask(GET)).status == 200
    assert (await kept.ask(GET)).status == 200
    assert (limit.refused, limit.evicted) == (0, 0)
    assert limit.acts[SILENT] >= 80
    # It says so, though nobody is refused.
    assert limit.displaced == limit.acts[SILENT]
    assert limit.is_short(monotonic())
    assert await flood[0].ends() == b""
    assert (await flood[-1].ask(GET)).status == 200


async def test_a_flood_gives_way_where_places_run_low(
    rig: Rig, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As half heads do, before all are taken."""
    monkeypatch.setattr(connection_limit, "IDLE_S", 0.0)
    limit = places(rig, 40)
    for _ in range(60):
        await rig.client()
    await until(lambda: limit.acts[SILENT] >= 25)
    assert len(limit._connections) - len(limit._closing) <= 31
    assert limit.refused == 0


async def test_a_few_that_are_opened_in_advance_stay(
    rig: Rig, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places are taken by clients that keep their connection: the one that is idle longest goes."""
    monkeypatch.setattr(connection_limit, "IDLE_S", 0.0)
    monkeypatch.setattr(connection_limit, "PENDING_S", 0.0)
    monkeypatch.setattr(connection_limit, "SEARCH_EVERY_S", 0.0)
    limit = places(rig, 50)
    kept = [await asked(rig) for _ in range(45)]
    ahead = [await rig.client() for _ in range(5)]
    await until(lambda: len(limit._connections) == 50)
    for _ in range(10):
        await asked(rig)
    assert (limit.evicted, limit.acts[SILENT], limit.refused) == (10, 0, 0)
    assert not limit.is_short(monotonic())
    assert await kept[0].ends() == b""
    for client in ahead:
        assert (await client.ask(GET)).status == 200


async def test_those_in_front_of_a_header_give_way(start_rig: StartRig) -> None:
    """With the PROXY protocol nothing is known of a client before."""
    rig = await start_rig(ProxySettings())
    rig.fleet(await rig.replica())
    server = await asyncio.get_running_loop().create_server(rig.proxy.connection, "127.0.0.1", 0)
    rig.proxy._reads_proxy_protocol = True
    limit = places(rig, 10)
    port = server.sockets[0].getsockname()[1]
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
    await until(lambda: limit.acts[SILENT] + limit.refused >= 20)
    assert limit.refused == 0
    for _, writer in streams:
        writer.transport.abort()
    server.close()
    await until(lambda: not limit._connections)


# --- which of them ------------------------------------------------------------------------------------


class Silent:
    """A connection as the search sees it; ``None``: something has come."""

    def __init__(self, since: float | None, descriptor: int = -1) -> None:
        self.silent_since = since
        self.descriptor = descriptor


NEW: Any = Silent(None)


def taken(silent: SilentConnections, connections: dict[Any, str], now: float, before: float = 1e9) -> Any:
    return silent.take_oldest(connections, (), now, before, NEW)


def test_those_of_an_address_with_many_go_first_then_the_oldest() -> None:
    regular = [Silent(float(number)) for number in range(3)]
    flood = [Silent(10.0 + number) for number in range(4)]
    connections = {**dict.fromkeys(regular, ""), **dict.fromkeys(flood, "f")}
    connections[regular[0]] = "r"
    silent = SilentConnections()
    assert [taken(silent, connections, 20.0) for _ in range(8)] == [*flood, *regular, None]
    # Those that have given way count no more, once they are gone; the next search is a while later.
    for one in (*flood, *regular[1:]):
        del connections[one]
    assert taken(silent, connections, 20.0) is None
    assert taken(silent, connections, 20.0 + 8 * SEARCH_S_EACH) is regular[0]


def test_none_goes_that_is_too_young_or_has_said_something_or_was_closed() -> None:
    one, other, third, fourth = [Silent(float(number)) for number in range(4)]
    connections = dict.fromkeys([one, other, third, fourth], "")
    silent = SilentConnections()
    assert taken(silent, connections, 5.0, before=-1.0) is None
    one.silent_since = None
    del connections[other]
    assert taken(silent, connections, 5.0, before=2.0) is third
    assert taken(silent, connections, 5.0, before=2.0) is None
    closing = SilentConnections()
    assert closing.take_oldest(connections, {third, fourth}, 9.0, 9.0, NEW) is None  # type: ignore[arg-type]


def test_few_are_no_flood() -> None:
    connections = {Silent(1.0 if number < 3 else None): "" for number in range(2 * PART)}
    silent = SilentConnections()
    assert taken(silent, connections, 5.0) is not None  # type: ignore[arg-type]
    assert taken(silent, connections, 5.0) is None  # type: ignore[arg-type]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_one_whose_request_lies_unread_is_not_silent(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.send(GET)
    connections = {Silent(1.0, near.fileno()): ""}
    assert taken(SilentConnections(), connections, 5.0) is None  # type: ignore[arg-type]
    near.recv(1000)
    assert taken(SilentConnections(), connections, 5.0) is not None  # type: ignore[arg-type]
