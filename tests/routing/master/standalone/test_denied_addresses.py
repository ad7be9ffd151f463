"""The built-in prober dials no address that the policy denies, by whatever name it is led there."""

import asyncio
import socket
from typing import Any

import pytest

from routing.contract.addresses import parse_base_url
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from routing.contract.probe_result import ProbeResult
from routing.contract.table import Tls
from routing.http import name_resolver
from routing.http.name_resolver import NameResolver
from routing.master.standalone.probe_client import ProbeTarget, probe
from routing.tls.context_cache import TlsContextCache
from tests.address_policies import judged_by
from tests.routing.proxy.rig import Replica

DENIED = "127.0.0.2"


class Dns:
    def __init__(self) -> None:
        self.addresses = ["127.0.0.1"]

    def getaddrinfo(self, host: str, port: int | None, *_: object, **__: object) -> list[Any]:
        known = [host] if host[0].isdigit() else self.addresses
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0)) for address in known]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Dns:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    monkeypatch.setattr(name_resolver, "FRESH_S", 0.0)
    monkeypatch.setattr(name_resolver, "OLD_S", 0.0)
    return dns


async def found(host: str, port: int, names: NameResolver, scheme: str = "http") -> ProbeResult:
    url = f"{scheme}://{host}:{port}"
    checks = checks_of(Probe(preset="http", path="/health"), "generic", url, "m")
    target = ProbeTarget(parse_base_url(url), Tls(), TlsContextCache(), host=names.name(host))
    with judged_by(denied=(f"{DENIED}/32",)):
        return await probe(checks, target, True)


@pytest.mark.parametrize("host", [DENIED, "a.test"])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_nothing_is_dialled_and_the_reason_is_said(dns: Dns, host: str, scheme: str) -> None:
    replica = Replica("denied")
    replica.address = DENIED
    await replica.start()
    dns.addresses = [DENIED]
    result = await found(host, replica.port, NameResolver(asyncio.get_running_loop()), scheme)
    assert (result.passed, result.hint, result.inconclusive) == (False, "down", False)
    assert f"{DENIED} is denied by SWITCHYARD_DENIED_ADDRESSES={DENIED}/32" in result.words
    assert result.words.startswith("a.test resolves to a forbidden address: ") == (host == "a.test")
    assert replica.connections == []
    await replica.stop()


async def test_a_name_of_clouds_is_not_even_looked_up(dns: Dns) -> None:
    replica = Replica("metadata")
    await replica.start()
    result = await found("metadata", replica.port, NameResolver(asyncio.get_running_loop()))
    assert result.words.startswith("metadata is a name of a cloud's instance metadata service")
    assert replica.connections == []
    await replica.stop()


async def test_a_name_that_is_rebound_is_probed_no_more(dns: Dns) -> None:
    allowed, denied = Replica("allowed"), Replica("denied")
    await allowed.start()
    denied.address, denied.port = DENIED, allowed.port
    await denied.start()
    names = NameResolver(asyncio.get_running_loop())
    name = names.name("a.test")  # it is known for as long as somebody holds it
    assert (await found("a.test", allowed.port, names)).passed
    dns.addresses = [DENIED]
    result = await found("a.test", allowed.port, names)
    assert result.words.startswith(f"a.test resolves to a forbidden address: {DENIED} is denied by")
    dns.addresses = [DENIED, "127.0.0.1"]
    assert (await found("a.test", allowed.port, names)).passed
    assert denied.connections == []
    assert name is not None
    for replica in (allowed, denied):
        await replica.stop()
