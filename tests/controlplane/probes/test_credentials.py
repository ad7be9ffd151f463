"""Probes of both planes present a replica's credential, and send nothing without it."""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.probes import prober, trial_probe
from controlplane.probes.trial_probe import TrialTarget
from routing.contract.addresses import parse_base_url
from routing.contract.probe import Probe
from routing.contract.probe_presets import Checks, checks_of
from routing.contract.probe_result import MAX_BODY_BYTES, ProbeResult
from routing.contract.table import Tls
from routing.master.standalone import probe_client
from routing.tls.context_cache import TlsContextCache
from routing.tls.credentials import Credentials, redact_token
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer, says

Asked = Callable[[str, str], ProbeResult]
TOKEN = b"s3cret-of-the-replica"


async def guarded(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    """200 to who presents the token, and only once."""
    let_in = re.findall(rb"(?im)^authorization: (.*)\r$", head) == [b"Bearer " + TOKEN]
    await says(200 if let_in else 401)(server, head, writer)


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(guarded) as running:
        yield running


@pytest.fixture
def reference(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_bytes(TOKEN + b"\n")
    return f"file:{file}"


def _checks(url: str) -> Checks:
    return checks_of(Probe(path="/health", timeout_s=5), "generic", url, "m")


def by_control_plane(url: str, credential: str) -> ProbeResult:
    (finding,) = prober.probe([prober.ReplicaProbe("u", url, _checks(url), True, credential=credential)])
    return finding.verdict


def by_standalone_proxy(url: str, credential: str) -> ProbeResult:
    place = probe_client.ProbeTarget(parse_base_url(url), Tls(), TlsContextCache(), credential, Credentials())
    return asyncio.run(probe_client.probe(_checks(url), place, True))


both = pytest.mark.parametrize("asked", [by_control_plane, by_standalone_proxy])


@both
def test_who_presents_it_is_let_in(server: HttpServer, reference: str, asked: Asked) -> None:
    assert asked(server.url, reference) == ProbeResult(True, "ready", "200 OK")
    refused = asked(server.url, "")
    assert (refused.passed, refused.words) == (False, "401 Unauthorized")


@both
def test_nothing_is_sent_without_it(server: HttpServer, tmp_path: Path, asked: Asked) -> None:
    why = "credential file:…/none cannot be read: No such file or directory"
    verdict = asked(server.url, f"file:{tmp_path}/none")
    assert verdict == ProbeResult(False, "down", f"{why} (host {socket.gethostname()})")
    assert not server.connections


def _tried(url: str, credential: str = "") -> str:
    return trial_probe.run(
        TrialTarget(url, "generic", "m", Probe(path="/health"), credential=credential)
    ).words


def test_a_trial_says_what_to_do(server: HttpServer, reference: str, tmp_path: Path) -> None:
    assert re.fullmatch(r"200 OK in \d+ ms: ready", _tried(server.url, reference))
    assert _tried(server.url) == (
        "401 Unauthorized at /health: the server requires a bearer token: set the replica's credential "
        "to where the token is, env:NAME or file:/whole/path"
    )
    (tmp_path / "other").write_text("another")
    wrong = f"file:{tmp_path}/other"
    assert _tried(server.url, wrong) == (
        f"401 Unauthorized at /health: the server does not accept the bearer token from {wrong}"
    )
    asked = server.connections
    missing = _tried(server.url, f"file:{tmp_path}/none")
    assert missing.endswith(f"(host {socket.gethostname()}): nothing was sent to 127.0.0.1:{server.port}")
    assert server.connections == asked


def test_every_further_question_of_a_trial_presents_it(server: HttpServer, reference: str) -> None:
    server.answer = says(404)
    _tried(server.url, reference)
    assert len(server.requests) > 3
    assert all(b"\r\nAuthorization: Bearer " + TOKEN + b"\r\n" in head for head in server.requests)


def test_a_server_that_is_asked_for_something_else(server: HttpServer) -> None:
    server.answer = servers.ready
    assert by_control_plane(server.url, "").passed
    assert b"uthorization" not in server.requests[0]


# --- a server that quotes what it was asked with ---


def quotes(status: int, body: bytes) -> servers.Answer:
    """An error whose text holds the whole Authorization field of the request, where ``body`` has %b."""

    async def answer(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        [value] = re.findall(rb"(?im)^authorization: (.*)\r$", head)
        await says(status, body % value)(server, head, writer)

    return answer


QUOTED = "Incorrect API key provided: Bearer ***."


@both
@pytest.mark.parametrize("status", [401, 503])
def test_a_token_that_the_answer_quotes_is_in_no_words(
    server: HttpServer, reference: str, asked: Asked, status: int
) -> None:
    server.answer = quotes(status, b'{"error": {"message": "Incorrect API key provided: %b."}}')
    assert asked(server.url, reference).words == f"{status} {QUOTED}"


@both
def test_nor_the_part_of_it_that_was_read(server: HttpServer, reference: str, asked: Asked) -> None:
    blank = MAX_BODY_BYTES - len(b"no: Bearer ") - 12
    server.answer = quotes(503, b" " * blank + b"no: %b")
    assert asked(server.url, reference).words == "503 no: Bearer ***"


@both
def test_nor_that_of_an_answer_that_cannot_be_read(server: HttpServer, reference: str, asked: Asked) -> None:
    async def garbled(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nwrong " + TOKEN + b"\r\n\r\n")
        await writer.drain()

    server.answer = garbled
    verdict = asked(server.url, reference)
    assert not verdict.passed
    assert TOKEN.decode() not in verdict.words
    assert TOKEN.decode() not in _tried(server.url, reference)

    async def garbled_chunk(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + TOKEN + b"\r\n")
        await writer.drain()

    server.answer = garbled_chunk
    assert TOKEN.decode() not in asked(server.url, reference).words
    assert TOKEN.decode() not in _tried(server.url, reference)


def test_a_trial_does_not_quote_it_either(server: HttpServer, reference: str) -> None:
    server.answer = quotes(503, b'{"error": {"message": "Incorrect API key provided: %b."}}')
    assert f"503 {QUOTED}" in _tried(server.url, reference)


@pytest.mark.parametrize(
    "written",
    [
        rb'a/b+c=<d&"~',
        rb"a\/b+c=\u003Cd\u0026\"~",
        rb"a\\/b\\u002bc\\u003d\\u003cd\\u0026\\\"~",
        b"a%2Fb%2bc%3D%3Cd%26%22%7E",
        b"a/b+c=&lt;d&amp;&quot;~",
        b"a/b&#43;c&#x3D;&#60;d&#38;&#34;~",
    ],
)
def test_however_its_characters_are_written(written: bytes) -> None:
    bearer = rb'Bearer a/b+c=<d&"~'
    assert redact_token(b"[" + written + b"] and [" + written + b"]", bearer) == b"[***] and [***]"
    assert redact_token(b"a/b+c is another", bearer) == b"a/b+c is another"
