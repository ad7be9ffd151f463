"""Addresses that the policy denies, behind a real proxy: nothing is dialled, and others get the requests.

The proxy's own lookup runs; only the system's ``getaddrinfo``, which would ask a DNS server, is replaced."""

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from routing.balancing.outlier import ejection
from routing.balancing.replica.state import Replica as BalancedReplica
from routing.contract.address_rules import OwnPort
from routing.contract.policy import Policy, Retries
from routing.contract.table import Tls
from routing.http import name_resolver
from tests.address_policies import judged_by
from tests.certificates import Authority
from tests.routing.proxy.rig import LIMIT_S, Client, Replica, Rig, until
from tests.routing.proxy.test_name_resolution import SHORT, Dns, closes_connections

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
DENIED = "127.0.0.2"
POLICY = Policy(strategy="round_robin", slow_start_s=0, retries=Retries(budget_percent=100))


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    with judged_by(denied=(f"{DENIED}/32",)):
        yield


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    monkeypatch.setattr(name_resolver, "FRESH_S", 0.0)
    monkeypatch.setattr(name_resolver, "SETTLED_S", 0.0)
    yield dns
    dns.end()


async def listening(rig: Rig, name: str, host: str = DENIED, port: int | None = None) -> Replica:
    """A server at the denied address; ``host``: in its URL."""
    replica = Replica(name)
    replica.address, replica.host = DENIED, host
    replica.port = replica.port if port is None else port
    await replica.start()
    rig.replicas.append(replica)
    return replica


def balanced(rig: Rig, name: str) -> BalancedReplica:
    return next(one for one in rig.table.fleets["f"].replicas if one.name == name)


async def refused(client: Client) -> str:
    answer = await client.ask(GET)
    assert answer.status == 503
    assert answer.get(b"retry-after") == [b"1"]
    said = json.loads(answer.body)
    assert said["code"] == "address_denied"
    return str(said["detail"])


@pytest.mark.parametrize("host", [DENIED, "a.test"])
async def test_nothing_is_dialled_and_others_get_the_requests(rig: Rig, dns: Dns, host: str) -> None:
    """By address, and by a name that leads there. One request is enough to see it; the reason is said."""
    denied, good = await listening(rig, "denied", host), await rig.replica("good")
    dns.set("a.test", [DENIED])
    rig.fleet(denied, good, policy=POLICY)
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).get(b"x-switchyard-replica") == [b"good"]
    out = balanced(rig, "denied").ejection
    await until(lambda: out.until)
    leads = "" if host == DENIED else "a.test resolves to a forbidden address: "
    words = f"{leads}{DENIED} is denied by SWITCHYARD_DENIED_ADDRESSES={DENIED}/32: "
    assert out.reason.startswith(f"nothing is sent to {host}:{denied.port}: {words}")
    assert out.cause == ejection.DENIED
    assert denied.connections == []


@pytest.mark.parametrize("host", [DENIED, "a.test"])
async def test_with_no_other_replica_the_client_is_told(rig: Rig, dns: Dns, host: str) -> None:
    denied = await listening(rig, "denied", host)
    dns.set("a.test", [DENIED])
    rig.fleet(denied, policy=SHORT)
    words = await refused(await rig.client())
    assert words.startswith("the replica gets no requests: ")
    assert f"{DENIED} is denied by SWITCHYARD_DENIED_ADDRESSES" in words
    assert denied.connections == []


async def test_a_name_that_is_rebound_is_followed_no_further(rig: Rig, dns: Dns) -> None:
    """It leads to an allowed address first, to a denied one then, and back. The same port is open at both."""
    replica = await rig.replica("a")
    replica.host = "a.test"
    denied = await listening(rig, "denied", port=replica.port)
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(replica, policy=SHORT)
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    dns.set("a.test", [DENIED])
    status = 200
    while status == 200:  # the last answer is used until the name has been looked up again
        await closes_connections(rig)
        status = (await client.ask(GET)).status
    assert status == 503
    assert "a.test resolves to a forbidden address" in await refused(client)
    served = len(replica.requests)
    dns.set("a.test", ["127.0.0.1"])
    while status != 200:
        status = (await client.ask(GET)).status
    assert len(replica.requests) == served + 1
    assert denied.connections == []


async def test_of_several_addresses_the_allowed_ones_are_dialled(rig: Rig, dns: Dns) -> None:
    replica = await rig.replica("a")
    replica.host = "a.test"
    denied = await listening(rig, "denied", port=replica.port)
    dns.set("a.test", [DENIED, "::ffff:127.0.0.2", "127.0.0.1"])
    rig.fleet(replica, policy=SHORT)
    assert (await (await rig.client()).ask(GET)).status == 200
    assert denied.connections == []


@pytest.mark.parametrize("host", ["127.0.0.1", "a.test", "::ffff:127.0.0.1"])
async def test_own_ports_are_not_dialled(rig: Rig, dns: Dns, host: str) -> None:
    admin = await rig.replica("admin")
    admin.host = f"[{host}]" if ":" in host else host
    dns.set("a.test", ["127.0.0.1"])
    rig.fleet(admin, policy=SHORT)
    with judged_by(own=(OwnPort(admin.port, "the proxy's admin listener", "127.0.0.1"),)):
        words = await refused(await rig.client())
    assert f":{admin.port} is the proxy's admin listener: no replica can be there" in words
    assert admin.connections == []


async def test_a_name_of_clouds_is_not_even_looked_up(rig: Rig, dns: Dns) -> None:
    replica = await rig.replica("a")
    replica.host = "metadata.google.internal"
    dns.set(replica.host, ["127.0.0.1"])
    rig.fleet(replica, policy=SHORT)
    assert "is a name of a cloud's instance metadata service" in await refused(await rig.client())
    assert replica.connections == []
    assert not dns.lookups


@pytest.mark.parametrize("host", [DENIED, "a.test"])
async def test_no_tls_handshake_either(
    rig: Rig, dns: Dns, host: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    denied = Replica("denied", authority.server(f"IP:{DENIED}", "DNS:a.test"))
    denied.address, denied.host = DENIED, host
    await denied.start()
    rig.replicas.append(denied)
    connected: list[object] = []
    denied.on_connect = connected.append
    dns.set("a.test", [DENIED])
    rig.fleet(denied, policy=SHORT, tls=Tls(ca=authority.reference))
    assert f"{DENIED} is denied by" in await refused(await rig.client())
    assert connected == []


async def test_it_is_back_when_its_name_leads_to_an_allowed_address(rig: Rig, dns: Dns) -> None:
    moved, good = await rig.replica("moved"), await rig.replica("good")
    moved.host = "a.test"
    dns.set("a.test", [DENIED])
    rig.fleet(moved, good, policy=POLICY)
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    await until(lambda: balanced(rig, "moved").ejection.until)
    dns.set("a.test", ["127.0.0.1"])

    async def served() -> bool:
        return (await client.ask(GET)).get(b"x-switchyard-replica") == [b"moved"]

    found = False
    async with asyncio.timeout(LIMIT_S):
        while not found:
            found = await served()
