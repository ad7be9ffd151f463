"""Fleets that reach one host by different names: the proxy's lookups say so, before any request does."""

import json
import socket
from collections.abc import Iterator

import pytest

from routing.http import name_resolver
from tests.routing.proxy.rig import Rig, until
from tests.routing.proxy.test_name_resolution import AWAY, Dns


async def status_of(rig: Rig, model: str, fleet: str = "a") -> int:
    client = await rig.client()
    body = json.dumps({"model": model}).encode()
    head = (
        f"POST /fleets/{fleet}/v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return (await client.ask(head.encode() + body)).status


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    for name in ("gpu1.test", "other.test"):
        dns.set(name, ["127.0.0.1"])
    yield dns
    dns.end()


async def fleets(rig: Rig, a_at: str, b_at: str) -> None:
    """Of one server, by two hosts."""
    server = await rig.replica("server")
    for name, host in (("b", b_at), ("a", a_at)):
        server.host = host
        rig.fleet(server, name=name, protocol="openai", expose="inference")


@pytest.mark.parametrize(
    ("a_at", "b_at"),
    [
        ("gpu1.test", "127.0.0.1"),
        ("127.0.0.1", "gpu1.test"),
        ("gpu1.test", "other.test"),
        ("localhost", "127.0.0.1"),
        ("127.0.0.2", "127.0.0.1"),
    ],
)
async def test_the_other_fleet_s_model_is_refused_at_the_first_request(
    rig: Rig, names: Dns, a_at: str, b_at: str
) -> None:
    await fleets(rig, a_at, b_at)
    pools = rig.table.fleets
    await until(lambda: pools["a"].exposed.host_is_shared and pools["b"].exposed.host_is_shared)
    assert await status_of(rig, "b") == 403
    assert all(not replica.requests for replica in rig.replicas)
    assert await status_of(rig, "b", "b") == 200


async def test_a_name_that_moves(rig: Rig, names: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_resolver, "FRESH_S", 0.0)
    names.set("gpu1.test", ["127.0.0.1", "10.9.8.7"])
    names.set("other.test", ["10.9.8.6"])
    await fleets(rig, "gpu1.test", "other.test")
    await until(lambda: names.lookups["gpu1.test"] and names.lookups["other.test"])
    assert await status_of(rig, "b") == 200, "they are two hosts"
    names.set("gpu1.test", ["127.0.0.1", "10.9.8.6"])
    while rig.proxy.give_back_idle():
        pass
    await until(lambda: rig.proxy.upstreams == 0)
    await status_of(rig, "a")
    await until(lambda: rig.table.fleets["a"].exposed.host_is_shared)
    assert await status_of(rig, "b") == 403


async def test_many_names_are_looked_up_a_few_at_a_time(rig: Rig, names: Dns) -> None:
    """Those that have no answer keep no connection from having its own name looked up."""
    replica = await rig.replica()
    for number in range(20):
        replica.host = f"silent{number}.test"
        rig.fleet(replica, name=f"s{number}", protocol="openai")
    replica.host = "gpu1.test"
    rig.fleet(replica, name="a", protocol="openai")
    assert await status_of(rig, "a") == 200
    assert len(names.lookups) <= 6
    for number in range(20):
        names.set(f"silent{number}.test", AWAY if number % 2 else ["10.9.8.7"])
    await until(lambda: len(names.lookups) == 21)
    await until(lambda: rig.table.fleets["s18"].exposed.host_is_shared)


async def test_one_fleet_alone_looks_nothing_up(rig: Rig, names: Dns) -> None:
    replica = await rig.replica()
    replica.host = "gpu1.test"
    rig.fleet(replica, name="a", protocol="openai", expose="inference")
    assert await status_of(rig, "b") == 200
    assert names.lookups == {"gpu1.test": 1}
