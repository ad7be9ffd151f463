"""A trial says in words what an address answers, over real sockets."""

import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.probes import trial_probe
from controlplane.probes.trial_probe import TrialResult, TrialTarget
from routing.contract.probe import Probe
from routing.contract.table import ApiProtocol
from tests import needs
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer, says
from tests.ports import free_port, unaccepting_port


def attempt(
    url: str, protocol: ApiProtocol = "openai", model: str = "digits", **probe: object
) -> TrialResult:
    return trial_probe.run(TrialTarget(url, protocol, model, Probe(**probe)))  # type: ignore[arg-type]


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


def by_path(answers: dict[str, tuple[int, bytes]]) -> servers.Answer:
    """404 on any other path."""

    async def answer(server: HttpServer, head: bytes, writer: object) -> None:
        status, body = answers.get(head.split(b" ")[1].decode(), (404, b""))
        await says(status, body)(server, head, writer)  # type: ignore[arg-type]

    return answer


def test_ready(server: HttpServer) -> None:
    found = attempt(server.url)
    assert (found.outcome, found.status, found.asked) == ("ready", 200, "GET /health")
    assert found.latency_ms is not None
    assert 0 < found.latency_ms < 5000
    told = re.fullmatch(r"200 OK in (\d+) ms: ready", found.words)
    assert told is not None
    # Each is rounded from the same figure.
    assert abs(int(told[1]) - found.latency_ms) <= 0.55
    assert found.fits is None
    assert [head.split(b"\r\n")[0] for head in server.requests] == [b"GET /health HTTP/1.1"]


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (servers.loading, "unready", "503 Loading model: the server is up and still loading"),
        (says(503, b"overloaded"), "unready", "503 overloaded: the server is up and cannot serve now"),
        (says(500, b"oops"), "down", "500 oops at /health: the server is up but fails - check its log"),
        (says(401), "unready", "401 Unauthorized at /health: the server requires a bearer token: set the"),
        (says(405), "unready", "405 at /health: the server does not accept GET there"),
        (says(301), "unready", "301 Moved Permanently at /health: give the URL that it redirects to"),
    ],
)
def test_answers_in_words(server: HttpServer, answer: servers.Answer, outcome: str, words: str) -> None:
    server.answer = answer
    found = attempt(server.url, preset="llama.cpp")
    assert found.words.startswith(words)
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("knows", "outcome", "first"), [("/v1/health", "unready", "200 OK"), ("/v1/models", "unready", "404 at")]
)
def test_an_address_that_ends_in_v1_doubles_it(
    server: HttpServer, knows: str, outcome: str, first: str
) -> None:
    """A llama.cpp server answers /v1/health, so its probes pass, and each request would be a 404."""
    server.answer = by_path({knows: (200, b"")})
    found = attempt(f"{server.url}/v1", preset="llama.cpp")
    assert found.outcome == outcome
    assert found.words.startswith(first)
    assert "404 at /v1/v1/models: leave /v1 out of the URL, because" in found.words
    assert found.words.endswith(f"({server.url})")


@pytest.mark.parametrize("preset", ["kserve-v2", "ollama"])
def test_the_preset_is_the_one_that_was_asked_for_also_without_a_model(
    server: HttpServer, preset: str
) -> None:
    found = attempt(server.url, "generic", model="", preset=preset)
    assert (found.outcome, found.preset) == ("ready", preset)


def test_an_address_that_ends_in_v1_for_a_reason_is_left_alone(server: HttpServer) -> None:
    server.answer = by_path({"/v1/health": (200, b""), "/v1/v1/models": (200, b"")})
    assert attempt(f"{server.url}/v1", preset="llama.cpp").words.endswith(": ready")
    server.answer = by_path({"/v1/health": (200, b"")})
    generic = attempt(f"{server.url}/v1", "generic", preset="http", path="/health")
    assert generic.words.endswith(": ready")


def test_nothing_listens() -> None:
    port = free_port()
    found = attempt(f"http://127.0.0.1:{port}")
    assert (found.outcome, found.status, found.latency_ms) == ("down", None, None)
    assert found.words.startswith(f"connection refused: nothing listens at 127.0.0.1:{port} - is the server")
    assert "127.0.0.1 is the machine or container of the control plane itself" in found.words


def test_a_server_on_loopback_alone_is_hinted_at() -> None:
    found = attempt(f"http://{needs.own_address()}:{free_port()}")
    assert "does it listen on that address and not only on 127.0.0.1?" in found.words


def test_a_name_that_does_not_resolve() -> None:
    found = attempt("http://no-such-host.invalid:8000")
    assert found.outcome == "down"
    assert found.words.startswith("the name no-such-host.invalid does not resolve where the control plane")


def test_silence_is_told_from_a_host_that_is_not_there(server: HttpServer) -> None:
    server.answer = servers.hang
    began = time.monotonic()
    found = attempt(server.url, preset="http", path="/x", timeout_s=0.3)
    assert time.monotonic() - began < 3
    assert found.words.startswith(f"connected to 127.0.0.1:{server.port}, but no response in 0.3 s")
    with unaccepting_port() as port:
        found = attempt(f"http://127.0.0.1:{port}", preset="http", path="/x", timeout_s=0.3)
    assert found.words.startswith(f"no connection to 127.0.0.1:{port} in 0.3 s: nothing answers at that")


def test_a_server_that_waits_for_more_than_a_tls_handshake() -> None:
    """As llama.cpp's does: no line of HTTP has come."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = attempt(f"https://127.0.0.1:{port}", preset="http", path="/x", timeout_s=0.3)
    assert found.words.startswith(f"no TLS connection to 127.0.0.1:{port} in 0.3 s")
    assert found.words.endswith("should the URL be http://?")


def test_a_trial_ends_in_time(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each of its questions is left without an answer."""

    async def hang_but_at_health(server: HttpServer, head: bytes, writer: object) -> None:
        answer = says(404) if head.startswith(b"GET /health ") else servers.hang
        await answer(server, head, writer)  # type: ignore[arg-type]

    server.answer = hang_but_at_health
    monkeypatch.setattr(trial_probe, "LIMIT_S", 0.5)
    began = time.monotonic()
    found = attempt(server.url)
    assert 0.4 < time.monotonic() - began < 3
    assert found.words == "404 at /health: this server has no such path"


def test_another_probe_that_fits(server: HttpServer) -> None:
    server.answer = by_path({"/v2/health/ready": (200, b"{}")})
    found = attempt(server.url)
    assert found.outcome == "unready"
    assert found.words == (
        "404 at /health: this server has no such path; a probe that fits: preset: kserve-v2 "
        "(GET /v2/health/ready returns 200)"
    )
    assert found.fits is not None
    assert found.fits.probe == {"preset": "kserve-v2"}


@pytest.mark.parametrize(
    ("answers", "probe"),
    [
        ({"/health": (200, b'{"status": "ok"}')}, {"preset": "llama.cpp"}),
        ({"/api/version": (200, b'{"version":"0.9"}'), "/": (200, b"")}, {"preset": "ollama"}),
        ({"/health": (200, b"")}, {"preset": "http", "path": "/health"}),
        ({"/ping": (200, b"pong"), "/": (200, b"")}, {"preset": "http", "path": "/ping"}),
        ({"/v1/models": (200, b"{}")}, {"preset": "http", "path": "/v1/models"}),
    ],
)
def test_which_probe_fits(
    server: HttpServer, answers: dict[str, tuple[int, bytes]], probe: dict[str, str]
) -> None:
    server.answer = by_path(answers)
    found = attempt(server.url, "generic", preset="http", path="/nothing")
    assert found.fits is not None
    assert found.fits.probe == probe


def test_base_path_stands_before_every_question(server: HttpServer) -> None:
    server.answer = by_path({"/base/healthz": (200, b"")})
    found = attempt(server.url + "/base")
    assert found.fits is not None
    assert found.fits.words == "path: /healthz (GET /base/healthz returns 200)"


def test_a_v2_server_whose_model_is_not_there(server: HttpServer) -> None:
    server.answer = by_path({"/v2/health/live": (200, b""), "/v2/models/digits/ready": (400, b"no model")})
    found = attempt(server.url, "open-inference")
    assert (found.outcome, found.status) == ("unready", 400)
    assert 'the server is up, but its model "digits" is not ready' in found.words
    assert "should served_model be another name?" in found.words


def test_a_v2_server_whose_model_is_not_known(server: HttpServer) -> None:
    server.answer = by_path({"/v2/health/ready": (200, b"")})
    found = attempt(server.url, "open-inference", model="")
    assert (found.outcome, found.asked) == ("ready", "GET /v2/health/ready")


def test_tls_on_the_port(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path))
    with listening(lambda raw: tls_server(raw, context)) as port:
        found = attempt(f"http://127.0.0.1:{port}")
    assert found.words.startswith(f"127.0.0.1:{port} speaks TLS: write https:// instead of http://")
    assert found.outcome == "down"


def certificate(folder: Path) -> tuple[Path, Path]:
    made, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x"),
            *("-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


def tls_server(raw: socket.socket, context: ssl.SSLContext) -> None:
    with closing(raw):
        try:
            with context.wrap_socket(raw, server_side=True) as secured:
                secured.recv(65536)
                secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass


def test_another_protocol_on_the_port() -> None:
    """A gRPC server's first bytes are an HTTP/2 SETTINGS frame."""

    def grpc(raw: socket.socket) -> None:
        with closing(raw):
            raw.recv(65536)
            raw.sendall(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00\r\n\r\n")

    with listening(grpc) as port:
        found = attempt(f"http://127.0.0.1:{port}")
    assert "does not speak HTTP/1.1: is this its gRPC port?" in found.words


def test_closed_without_an_answer(server: HttpServer) -> None:
    server.answer = servers.reset
    found = attempt(server.url)
    assert found.words.startswith("connection closed without a response: something listens at 127.0.0.1:")


class listening:
    """A server that hands each connection to ``serve`` in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> int:
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def test_a_forbidden_address_is_refused_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may lead anywhere: what it leads to is judged when it is looked up."""
    metadata = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: metadata)
    found = attempt("http://gpu7.example:80")
    assert found.outcome == "refused"
    assert found.words.startswith(
        "gpu7.example resolves to a forbidden address: 169.254.169.254 is link-local"
    )
