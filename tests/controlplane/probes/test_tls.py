"""Probes of both planes verify as the proxy does, and say what a wrong certificate is for."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.probes import prober, trial_probe
from controlplane.probes.trial_probe import TrialTarget
from routing.contract.addresses import parse_base_url
from routing.contract.probe import Probe
from routing.contract.probe_presets import Checks, checks_of
from routing.contract.probe_result import ProbeResult
from routing.contract.table import Tls
from routing.master.standalone import probe_client
from routing.tls.context_cache import TlsContextCache
from tests.certificates import Authority, server_context
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer

Asked = Callable[[str, Tls], ProbeResult]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    return server_context(authority.issue("DNS:model.test", "IP:127.0.0.1"))


@pytest.fixture
def server(context: ssl.SSLContext) -> Iterator[HttpServer]:
    with HttpServer(servers.ready, context) as running:
        yield running


def _checks(url: str) -> Checks:
    return checks_of(Probe(path="/health", timeout_s=5), "generic", url, "m")


def by_control_plane(url: str, tls: Tls) -> ProbeResult:
    (finding,) = prober.probe([prober.ReplicaProbe("u", url, _checks(url), True, tls=tls)])
    return finding.verdict


def by_standalone_proxy(url: str, tls: Tls) -> ProbeResult:
    place = probe_client.ProbeTarget(parse_base_url(url), tls, TlsContextCache())
    return asyncio.run(probe_client.probe(_checks(url), place, True))


both = pytest.mark.parametrize("asked", [by_control_plane, by_standalone_proxy])


@both
def test_a_verified_replica_passes(server: HttpServer, authority: Authority, asked: Asked) -> None:
    for tls in (Tls(ca=authority.reference), Tls(ca=authority.reference, server_name="model.test")):
        assert asked(server.url, tls) == ProbeResult(True, "ready", "200 OK")
    assert b"GET /health HTTP/1.1" in server.requests[0]
    assert f"Host: 127.0.0.1:{server.port}".encode() in server.requests[0]


@both
def test_another_name(server: HttpServer, authority: Authority, asked: Asked) -> None:
    verdict = asked(server.url, Tls(ca=authority.reference, server_name="other.test"))
    words = "the certificate is for other names: model.test, 127.0.0.1; not for other.test"
    assert verdict == ProbeResult(False, "down", f"{words} (see tls.server_name)")
    assert not server.requests


@both
@pytest.mark.parametrize(
    ("ca", "words"),
    [
        ("", "the certificate's issuer is not trusted: set tls.ca to the CA that issued it"),
        (
            "env:SWITCHYARD_TEST_NO_CA",
            "tls.ca env:SWITCHYARD_TEST_NO_CA is an environment variable that",
        ),
        ("file:/nowhere/ca.pem", "tls.ca file:…/ca.pem cannot be read: No such file or directory"),
    ],
)
def test_nothing_is_asked_unverified(server: HttpServer, asked: Asked, ca: str, words: str) -> None:
    verdict = asked(server.url, Tls(ca=ca))
    assert (verdict.passed, verdict.hint) == (False, "down")
    assert verdict.words.startswith(words)
    assert not server.requests


@both
def test_a_variable_holds_the_certificate(
    server: HttpServer, authority: Authority, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHYARD_TEST_CA", "our own:\n" + authority.certificate.read_text())
    assert asked(server.url, Tls(ca="env:SWITCHYARD_TEST_CA")).passed


@both
@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS is spoken there: is the URL http://?"),
        (b"", "the connection was closed during the TLS handshake"),
    ],
)
def test_no_tls_there(asked: Asked, said: bytes, words: str) -> None:
    def answer(listener: socket.socket) -> None:
        with closing(listener.accept()[0]) as raw:
            raw.recv(65536)
            raw.sendall(said)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        verdict = asked(f"https://127.0.0.1:{listener.getsockname()[1]}", Tls())
        thread.join(5)
    assert verdict.words == words


@both
def test_an_expired_certificate(authority: Authority, asked: Asked) -> None:
    with HttpServer(servers.ready, authority.server("IP:127.0.0.1", days=-1)) as server:
        verdict = asked(server.url, Tls(ca=authority.reference))
    assert verdict.words == "the certificate has expired: renew it"


def test_a_trial(server: HttpServer, authority: Authority) -> None:
    def attempt(tls: Tls) -> trial_probe.TrialResult:
        return trial_probe.run(TrialTarget(server.url, "openai", "", Probe(), tls))

    assert attempt(Tls(ca=authority.reference)).outcome == "ready"
    refused = attempt(Tls())
    assert refused.outcome == "down"
    assert refused.words == (
        "the certificate's issuer is not trusted: set tls.ca to the CA that issued it "
        f"- probed at 127.0.0.1:{server.port}"
    )


def test_a_file_that_comes_later(server: HttpServer, authority: Authority, tmp_path: Path) -> None:
    contexts = TlsContextCache()
    tls = Tls(ca=f"file:{tmp_path}/ca.pem")
    place = probe_client.ProbeTarget(parse_base_url(server.url), tls, contexts)

    async def ask_until_it_passes() -> None:
        assert not (await probe_client.probe(_checks(server.url), place, True)).passed
        (tmp_path / "ca.pem").write_text(authority.certificate.read_text())
        ends = time.monotonic() + 10
        while not (await probe_client.probe(_checks(server.url), place, True)).passed:
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)

    asyncio.run(ask_until_it_passes())
