"""Replicas that have host names: DNS is silent, slow, away, or gives another answer. The proxy's own lookup
runs; only the system's ``getaddrinfo``, which would ask a DNS server, is replaced."""

import asyncio
import gc
import json
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from routing.contract.policy import Policy, Retries, Timeouts
from routing.http import name_resolver
from routing.http.name_resolver import NameResolver
from tests.routing.proxy.rig import LIMIT_S, Client, Replica, Rig, unreachable, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
SHORT = Policy(
    strategy="round_robin",
    slow_start_s=0,
    retries=Retries(budget_percent=100),
    timeouts=Timeouts(connect_s=0.3),
)
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
AWAY = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


class Dns:
    """What the system answers. A name that is not told of has no answer: the lookup blocks until the end."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str] | socket.gaierror] = {}
        self.lookups: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()
        self.changed = threading.Condition()
        self.ended = False

    def set(self, name: str, answer: list[str] | socket.gaierror | None) -> None:
        """``None``: silence."""
        with self.changed:
            if answer is None:
                del self.answers[name]
            else:
                self.answers[name] = answer
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def getaddrinfo(self, host: str, port: int | None, *_: object, **__: object) -> list[Any]:
        with self.changed:
            self.lookups[host] += 1
            self.in_flight[host] += 1
            self.most_in_flight[host] = max(self.most_in_flight[host], self.in_flight[host])
            self.changed.wait_for(lambda: self.ended or host in self.answers)
            self.in_flight[host] -= 1
            answer = self.answers.get(host, AWAY)
        if isinstance(answer, socket.gaierror):
            raise socket.gaierror(*answer.args)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in answer]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    yield dns
    dns.end()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new connection looks its name up again."""
    monkeypatch.setattr(name_resolver, "FRESH_S", 0.0)


async def named(rig: Rig, host: str) -> Replica:
    replica = await rig.replica()
    replica.host = host
    return replica


async def started_at(rig: Rig, address: str, port: int) -> Replica:
    """A server that is in no fleet."""
    replica = Replica(address)
    replica.address, replica.port = address, port
    await replica.start()
    rig.replicas.append(replica)
    return replica


async def closes_connections(rig: Rig) -> None:
    """Let the next request open a connection."""
    while rig.proxy.give_back_idle():
        pass
    await until(lambda: rig.proxy.upstreams == 0)


def no_error(caplog: pytest.LogCaptureFixture) -> bool:
    gc.collect()
    return not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_silent_names_hold_up_no_other(rig: Rig, dns: Dns, caplog: pytest.LogCaptureFixture) -> None:
    """However many connections want one, it has one lookup; others are looked up and served meanwhile."""
    silent = [await named(rig, f"silent{number}.test") for number in range(16)]
    for number, replica in enumerate(silent):
        rig.fleet(replica, name=f"silent{number}", policy=SHORT)
    clients = [await rig.client() for _ in range(32)]
    requests = [GET.replace(b"/x", b"/fleets/silent%d/x" % (number % 16)) for number in range(32)]
    asked = zip(clients, requests, strict=True)
    answers = await asyncio.gather(*(client.ask(request) for client, request in asked))
    assert {answer.status for answer in answers} == {503}
    said = json.loads(answers[0].body)
    assert said["code"] == "connect_timeout"
    assert said["detail"] == "no connection within 0.3 s: DNS has given no address of silent0.test yet"
    others = [await named(rig, f"{name}.test") for name in "abcdef"]
    for replica in others:
        dns.set(replica.host, ["127.0.0.1"])
    rig.fleet(*others)
    for _ in others:
        assert (await clients[0].ask(GET)).status == 200
    assert all(len(replica.requests) == 1 for replica in others)
    assert {replica.host: 1 for replica in silent}.items() <= dns.lookups.items()

    # The answer that nobody waited for any more is used.
    dns.set("silent0.test", ["127.0.0.1"])
    await until(lambda: not dns.in_flight["silent0.test"])
    assert (await clients[0].ask(requests[0])).status == 200
    assert dns.lookups["silent0.test"] == 1
    assert no_error(caplog)


async def test_more_silent_names_than_lookups(rig: Rig, dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are bounded. Those that failed come last, and what nobody waits for any more is not begun."""
    monkeypatch.setattr(name_resolver, "MOST_LOOKUPS", 2)
    replica = await rig.replica()
    resolver = NameResolver(asyncio.get_running_loop())
    names = {}

    def connecting(host: str) -> "asyncio.Task[None]":
        names[host] = name = names.get(host) or resolver.name(host)
        assert name is not None
        return asyncio.create_task(name.connect(asyncio.Protocol, replica.port))

    dns.set("failed.test", UNKNOWN)
    with pytest.raises(socket.gaierror):
        await connecting("failed.test")
    dns.set("failed.test", None)
    silent = [connecting(f"silent{number}.test") for number in range(2)]
    await until(lambda: len(dns.lookups) == 3)
    last, left, good = [connecting(f"{name}.test") for name in ("failed", "left", "good")]
    await asyncio.sleep(0)
    left.cancel()
    dns.set("good.test", ["127.0.0.1"])
    dns.set("left.test", ["127.0.0.1"])
    await asyncio.sleep(0)
    assert dns.lookups["good.test"] == 0
    dns.set("silent0.test", ["127.0.0.1"])
    await asyncio.wait_for(good, LIMIT_S)
    await silent[0]
    await until(lambda: dns.in_flight["failed.test"])
    assert dns.lookups == {"failed.test": 2, "good.test": 1, "silent0.test": 1, "silent1.test": 1}
    dns.end()
    for attempt in (silent[1], last):
        with pytest.raises(socket.gaierror):
            await attempt
    assert await connecting("left.test") is None
    await until(lambda: replica.connections)
    for connection in replica.connections:
        connection.transport.abort()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("then", [None, UNKNOWN, AWAY], ids=["silent", "gone", "away"])
async def test_the_last_good_address_is_used_while_lookups_fail(
    then: socket.gaierror | None, rig: Rig, dns: Dns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica, policy=SHORT)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    dns.set("a.test", then)
    for _ in range(5):
        await closes_connections(rig)
        assert (await client.ask(GET)).status == 200
    await until(lambda: dns.lookups["a.test"] > 1)
    assert rig.table.fleets["f"].replicas[0].failed == 0
    if then is not None:
        words = f"DNS has given no address of a.test: {then.strerror}; "
        words += "new connections go to its last addresses, 127.0.0.1"
        await until(lambda: words in caplog.messages)
        dns.set("a.test", ["127.0.0.1"])
        await closes_connections(rig)
        assert (await client.ask(GET)).status == 200
        await until(lambda: "the name a.test is looked up again: 127.0.0.1" in caplog.messages)
        assert [message for message in caplog.messages if "a.test" in message].count(words) == 1
    assert dns.most_in_flight["a.test"] == 1
    assert no_error(caplog)


async def test_an_answer_is_used_without_asking_again(rig: Rig, dns: Dns) -> None:
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica)
    client = await rig.client()
    for _ in range(10):
        assert (await client.ask(GET)).status == 200
        await closes_connections(rig)
    assert len(replica.connections) == 10
    assert dns.lookups["a.test"] <= 3  # once, unless this machine is held for FRESH_S


async def test_a_name_that_moves_is_followed_at_once(
    rig: Rig, dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that the old address refuses is tried at the new one: no failure, no ejection."""
    monkeypatch.setattr(name_resolver, "SETTLED_S", 0.0)
    monkeypatch.setattr(name_resolver, "BRIEFLY_S", 10.0)
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    await replica.stop()
    await until(lambda: rig.proxy.upstreams == 0)
    dns.set("a.test", ["127.0.0.2"])
    elsewhere = await started_at(rig, "127.0.0.2", replica.port)
    assert (await client.ask(GET)).status == 200
    assert len(elsewhere.requests) == 1
    assert rig.table.fleets["f"].replicas[0].failed == 0


async def test_a_refused_connection_is_known_at_once_though_dns_is_silent(
    rig: Rig, dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_resolver, "SETTLED_S", 0.0)
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica)  # which would wait for a connection for LIMIT_S
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    await replica.stop()
    await until(lambda: rig.proxy.upstreams == 0)
    dns.set("a.test", None)
    began = time.monotonic()
    assert json.loads((await client.ask(GET)).body)["code"] == "replica_unreachable"
    assert time.monotonic() - began < LIMIT_S / 2
    await until(lambda: dns.in_flight["a.test"])


async def moved(rig: Rig, dns: Dns) -> tuple[Replica, Replica, Client]:
    """A replica that was asked, another one at the address that its name has since then, and a client."""
    replica = await named(rig, "a.test")
    elsewhere = await started_at(rig, "127.0.0.2", replica.port)
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    dns.set("a.test", ["127.0.0.2"])
    return replica, elsewhere, client


@pytest.mark.usefixtures("impatient")
async def test_a_changed_answer_is_followed(rig: Rig, dns: Dns) -> None:
    """New connections go to the new address, though the old one accepts them as well."""
    replica, elsewhere, client = await moved(rig, dns)

    async def asked_there() -> bool:
        await closes_connections(rig)
        assert (await client.ask(GET)).status == 200
        return bool(elsewhere.requests)

    end = time.monotonic() + 10
    while not await asked_there():
        assert time.monotonic() < end
    assert len(replica.requests) < 100


@pytest.mark.usefixtures("impatient")
async def test_for_a_newer_answer_than_an_old_one_is_waited(
    rig: Rig, dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Briefly: the old address may be another server's by now."""
    monkeypatch.setattr(name_resolver, "OLD_S", 0.0)
    monkeypatch.setattr(name_resolver, "BRIEFLY_S", LIMIT_S)
    _, elsewhere, client = await moved(rig, dns)
    await closes_connections(rig)
    assert (await client.ask(GET)).status == 200
    assert len(elsewhere.requests) == 1


async def test_the_first_address_that_connects_is_used(rig: Rig, dns: Dns) -> None:
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    rig.fleet(replica)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200


async def test_a_name_that_is_unknown_is_named(rig: Rig, dns: Dns, caplog: pytest.LogCaptureFixture) -> None:
    replica = await named(rig, "a.test")
    dns.set("a.test", UNKNOWN)
    rig.fleet(replica, policy=SHORT)
    client = await rig.client()
    said = json.loads((await client.ask(GET)).body)
    assert said["code"] == "replica_unreachable"
    assert "DNS has given no address of a.test: Name or service not known" in said["detail"]
    assert sum("no connection can be opened to it" in message for message in caplog.messages) == 1
    dns.set("a.test", ["127.0.0.1"])
    assert (await client.ask(GET)).status == 200


async def test_a_connection_that_takes_too_long_asks_anew(
    rig: Rig, dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_resolver, "SETTLED_S", 0.0)
    with unreachable() as hanging:
        hanging.host = "a.test"
        dns.set("a.test", ["127.0.0.1"])
        rig.fleet(hanging, policy=SHORT)
        client = await rig.client()
        assert b"no connection within 0.3 s" in (await client.ask(GET)).body
        await until(lambda: dns.lookups["a.test"] >= 2)


async def test_ip_addresses_are_not_looked_up(rig: Rig, dns: Dns, client: Client) -> None:
    assert (await client.ask(GET)).status == 200
    assert not dns.lookups
    resolver = NameResolver(asyncio.get_running_loop())
    assert resolver.name("10.0.0.1") is None
    assert resolver.name("fd00::1") is None


async def test_a_name_is_forgotten_with_its_last_replica(rig: Rig, dns: Dns) -> None:
    replica = await named(rig, "a.test")
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    names = rig.proxy._names
    assert len(names) == 1
    other = await rig.replica()
    rig.fleet(other)
    assert (await client.ask(GET)).status == 200
    await closes_connections(rig)

    def forgotten() -> bool:
        gc.collect()
        return len(names) == 0

    await until(forgotten)
