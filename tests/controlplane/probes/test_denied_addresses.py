"""Addresses that the policy denies: no probe, trial or load page dials them, and health says why."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.models import Fleet, Replica, ReplicaHealth
from controlplane.probes import prober, targets, trial_probe
from controlplane.probes.prober import ReplicaProbe
from controlplane.probes.trial_probe import TrialTarget
from routing.contract.address_rules import OwnPort
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from tests.address_policies import judged_by
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.controlplane.probes.test_tasks import one_round

LOOPBACK = "127.0.0.1"
PORTS = "is a port of Switchyard"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


class Dns:
    """Answers every name with these addresses, one answer after the other; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    def getaddrinfo(self, host: str, port: int, *_: object, **__: object) -> list[Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


def found(url: str, **settings: object) -> prober.ReplicaProbeResult:
    settings = {"preset": "http", "path": "/health", "timeout_s": 5.0} | settings
    checks = checks_of(Probe(**settings), "openai", url, "m")  # type: ignore[arg-type]
    [finding] = prober.probe([ReplicaProbe("u", url, checks, True)])
    return finding


@pytest.mark.parametrize("host", [LOOPBACK, "a.test", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_probe_dials_nothing_and_says_why(
    server: HttpServer, host: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Dns([LOOPBACK]).getaddrinfo)
    with judged_by(denied=(f"{LOOPBACK}/32",)):
        verdict = found(f"{scheme}://{host}:{server.port}").verdict
    assert (verdict.passed, verdict.hint, verdict.inconclusive) == (False, "down", False)
    assert "is denied by SWITCHYARD_DENIED_ADDRESSES=127.0.0.1/32: no replica can be there" in verdict.words
    assert verdict.words.startswith("a.test resolves to a forbidden address: 127.0.0.1") == (host == "a.test")
    assert server.connections == 0


def test_a_name_that_is_rebound_is_probed_no_more(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dns = Dns([LOOPBACK], ["169.254.169.254"], [LOOPBACK])
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    url = f"http://a.test:{server.port}"
    assert found(url).verdict.passed
    words = "a.test resolves to a forbidden address: 169.254.169.254 is link-local"
    assert found(url).verdict.words.startswith(words)
    assert found(url).verdict.passed
    assert len(server.requests) == 2


def test_what_the_resolver_lets_through_is_judged_again_when_it_is_dialled(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy of the connection decides, whatever the HTTP client remembers of a name."""

    async def ask_twice() -> list[str]:
        said = []
        async with prober.new_session() as session:
            for denied in ((), (f"{LOOPBACK}/32",)):
                with judged_by(denied=denied):
                    try:
                        async with session.get(f"http://a.test:{server.port}/") as response:
                            said.append(str(response.status))
                    except OSError as error:
                        said.append(str(getattr(error, "os_error", error)))
        return said

    monkeypatch.setattr(socket, "getaddrinfo", Dns([LOOPBACK]).getaddrinfo)
    status, words = asyncio.run(ask_twice())
    assert status == "200"
    assert "is denied by" in words
    assert server.connections == 1


def test_of_several_addresses_the_allowed_ones_are_dialled(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Dns(["169.254.169.254", LOOPBACK]).getaddrinfo)
    assert found(f"http://a.test:{server.port}").verdict.passed


def test_the_port_of_a_load_page_is_judged_as_well(server: HttpServer) -> None:
    with HttpServer(servers.ready) as admin:
        with judged_by(own=(OwnPort(admin.port, "the proxy's admin listener", LOOPBACK),)):
            finding = found(server.url, preset="vllm", path=None, metrics_port=admin.port)
        assert finding.verdict.passed
        assert finding.load is not None
        assert "is the proxy's admin listener: no replica can be there" in finding.load.problem
        assert admin.connections == 0


@pytest.mark.parametrize("host", [LOOPBACK, "a.test"])
def test_a_trial_dials_nothing_at_all(server: HttpServer, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its further questions (TLS, other probes, the doubled /v1) neither."""
    monkeypatch.setattr(socket, "getaddrinfo", Dns([LOOPBACK]).getaddrinfo)
    subject = TrialTarget(f"http://{host}:{server.port}/v1", "openai", "m", Probe(preset="vllm"))
    with judged_by(own=(OwnPort(server.port, "a port of Switchyard"),)):
        result = trial_probe.run(subject)
    assert result.outcome == "refused"
    assert f"127.0.0.1:{server.port} {PORTS}: no replica can be there" in result.words
    assert server.connections == 0


@pytest.mark.django_db
def test_a_replica_that_has_such_an_address_already_is_down_and_its_health_says_why(
    redis_client: Any, server: HttpServer
) -> None:
    """A row of before the rule, say: the fleet's other replicas are probed as before."""
    probe = {"preset": "http", "path": "/health", "fall": 1, "rise": 1}
    fleet = Fleet.objects.create(name="f", protocol="openai", probe=probe)
    for name, url in (("good", server.url), ("old", "http://[fd20:ce::254]:80")):
        replica = Replica.objects.create(fleet=fleet, name=name, url=url)
        ReplicaHealth.objects.create(replica=replica, state="ready", has_passed=True)
    assert len(targets.load([str(one.uid) for one in Replica.objects.all()])) == 2
    one_round(redis_client)
    old = ReplicaHealth.objects.get(replica__name="old")
    assert old.state == "down"
    assert "fd20:ce::254 is a cloud's instance metadata service" in old.reason
    assert ReplicaHealth.objects.get(replica__name="good").state == "ready"
