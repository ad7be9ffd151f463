"""What each preset asks, and what it makes of the answers real servers give."""

import asyncio
import errno
import socket

import pytest

from routing.contract.probe import Probe
from routing.contract.probe_presets import PRESETS, ProbeKind, checks_of, conclude
from routing.contract.probe_result import MAX_WORDS, ProbeResult, message_of, result_of_error, status_words

URL = "http://10.0.0.1:8000"
LOADING = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'


def judge(probe: Probe, status: int, body: bytes = b"", kind: ProbeKind = "readiness") -> ProbeResult:
    return checks_of(probe, "generic", URL, "m").judge(kind, status, body)


@pytest.mark.parametrize(
    ("preset", "status", "body", "hint", "words"),
    [
        ("llama.cpp", 200, b'{"status":"ok"}', "ready", "200 OK"),
        ("llama.cpp", 503, LOADING, "unready", "503 Loading model"),
        ("llama.cpp", 500, b"", "down", "500 Internal Server Error"),
        ("llama.cpp", 404, b"<html>nope</html>", "unready", "404 Not Found"),
        ("vllm", 200, b"", "ready", "200 OK"),
        ("vllm", 503, b"", "down", "503 engine dead"),
        ("vllm", 500, b"boom", "down", "500 boom"),
        ("vllm", 401, b'{"error":"Unauthorized"}', "unready", "401 Unauthorized"),
        ("kserve-v2", 200, b"", "ready", "200 OK"),
        ("kserve-v2", 200, b'{"name":"m","ready":true}', "ready", "200 OK"),
        (
            "kserve-v2",
            200,
            b'{"name":"m","ready":false}',
            "unready",
            "200, but the response says that the model is not ready",
        ),
        ("kserve-v2", 400, b"", "unready", "model not ready: 400 Bad Request"),
        ("kserve-v2", 503, b'{"error":"still loading"}', "unready", "model not ready: 503 still loading"),
        ("sglang", 200, b"", "ready", "200 OK"),
        ("sglang", 503, b"", "unready", "503 Service Unavailable"),
        ("tgi", 503, b'{"error":"unhealthy","error_type":"healthcheck"}', "unready", "503 unhealthy"),
        ("litserve", 200, b"ok", "ready", "200 OK"),
        ("litserve", 503, b"not ready", "unready", "503 not ready"),
        ("litserve", 500, b"", "down", "500 Internal Server Error"),
        (
            "mlserver",
            404,
            b'{"error":"Model m not found"}',
            "unready",
            "model not ready: 404 Model m not found",
        ),
        ("triton", 400, b"", "unready", "model not ready: 400 Bad Request"),
        ("ollama", 200, b'{"details": {}}', "ready", "200 OK"),
        ("ollama", 404, b'{"error":"model \'m\' not found"}', "unready", "404 model 'm' not found"),
    ],
)
def test_readiness_answers(preset: str, status: int, body: bytes, hint: str, words: str) -> None:
    result = judge(Probe(preset=preset), status, body)
    assert (result.passed, result.hint, result.words) == (hint == "ready", hint, words)


def test_the_model_is_asked_and_not_only_its_server() -> None:
    checks = checks_of(Probe(preset="kserve-v2"), "open-inference", URL + "/base", "digits/v 1")
    assert checks.requests["readiness"][:2] == ("GET", "/base/v2/models/digits%2Fv%201/ready")
    assert checks.requests["liveness"][:2] == ("GET", "/base/v2/health/live")
    assert checks.requests["startup"] == checks.requests["readiness"]


def test_a_model_that_is_not_ready_leads_to_the_liveness_question() -> None:
    checks = checks_of(Probe(preset="kserve-v2"), "open-inference", URL, "digits")
    not_ready = checks.judge("readiness", 400, b"")
    assert checks.needs_liveness("readiness", not_ready)
    assert not checks.needs_liveness("startup", not_ready)
    assert conclude(not_ready, checks.judge("liveness", 200, b"")) == not_ready
    dead = conclude(not_ready, checks.judge("liveness", 500, b""))
    assert (dead.hint, dead.words) == ("down", "server not live: 500 Internal Server Error")
    lying = conclude(not_ready, checks.judge("liveness", 200, b'{"live": false}'))
    assert lying.hint == "down"


def test_ollama_is_asked_for_the_model_and_then_for_its_version() -> None:
    checks = checks_of(Probe(preset="ollama"), "openai", URL, "hf.co/some/model:Q4")
    asked = checks.requests["readiness"]
    assert (asked.method, asked.path, asked.body) == (
        "POST",
        "/api/show",
        b'{"model": "hf.co/some/model:Q4"}',
    )
    missing = checks.judge("readiness", 404, b'{"error":"model \'m\' not found"}')
    assert checks.needs_liveness("readiness", missing)
    assert checks.requests["liveness"][:2] == ("GET", "/api/version")
    assert conclude(missing, checks.judge("liveness", 200, b'{"version":"0.33.0"}')) == missing


@pytest.mark.parametrize("preset", ["vllm", "llama.cpp", "sglang", "tgi", "litserve"])
def test_where_both_questions_are_the_same_only_one_is_asked(preset: str) -> None:
    checks = checks_of(Probe(preset=preset), "openai", URL, "m")
    assert not checks.needs_liveness("readiness", checks.judge("readiness", 404, b""))


def test_a_first_pass_is_sought_with_the_startup_probe() -> None:
    checks = checks_of(Probe(preset="vllm"), "openai", URL, "m")
    assert checks.first(has_passed=False) == "startup"
    assert checks.first(has_passed=True) == "readiness"


@pytest.mark.parametrize(
    ("preset", "timeout_s"),
    [("vllm", 5.0), ("llama.cpp", 5.0), ("sglang", 5.0), ("ollama", 5.0), ("triton", 1.0), ("http", 1.0)],
)
def test_language_models_get_more_time(preset: str, timeout_s: float) -> None:
    probe = Probe(preset=preset, path="/" if preset == "http" else None)
    assert checks_of(probe, "generic", URL, "m").timeout_s == timeout_s
    slow = Probe(preset=preset, path=probe.path, timeout_s=9.0)
    assert checks_of(slow, "generic", URL, "m").timeout_s == 9.0


def test_http_asks_exactly_what_the_user_says() -> None:
    probe = Probe(
        preset="http",
        path="/check?deep=1",
        body='{"x": 1}',
        accepted_statuses=[200, 204],
        body_contains="fine",
    )
    request = checks_of(probe, "generic", URL + "/v1", "m").requests["readiness"]
    assert request.method == "POST"
    assert request.path == "/v1/check?deep=1"
    assert request.body == b'{"x": 1}'
    assert ("Content-Type", "application/json") in request.headers
    assert judge(probe, 200, b"all fine").passed
    assert judge(probe, 204, b"").words == '204, but the response does not contain "fine"'
    assert judge(probe, 302, b"").words == "302 Found (redirects are not followed)"
    assert judge(probe, 503, b"warming up") == ProbeResult(False, "unready", "503 warming up")


def test_a_head_request_is_sent_as_asked() -> None:
    probe = Probe(preset="http", path="/", method="HEAD")
    assert checks_of(probe, "generic", URL, "m").requests["readiness"].method == "HEAD"


def test_a_fleet_that_chose_nothing_is_probed_as_its_protocol_allows() -> None:
    openai = checks_of(Probe(), "openai", URL, "m")
    assert (openai.requests["readiness"].path, openai.timeout_s) == ("/health", 5.0)
    assert openai.judge("readiness", 503, LOADING) == ProbeResult(False, "unready", "503 Loading model")
    v2 = checks_of(Probe(), "open-inference", URL, "m")
    assert v2.requests["readiness"].path == "/v2/models/m/ready"
    generic = checks_of(Probe(), "generic", URL, "m")
    assert generic.requests["readiness"].path == "/"
    assert generic.judge("readiness", 404, b"").passed
    assert not generic.judge("readiness", 500, b"").passed


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r'unknown probe preset "torch": use one of llama.cpp, kserve-v2'):
        checks_of(Probe(preset="torch"), "open-inference", URL, "m")
    of_servers = {"llama.cpp", "vllm", "sglang", "tgi", "triton", "mlserver", "ollama", "litserve"}
    assert set(PRESETS) == of_servers | {"kserve-v2", "http"}


class WrappedByClient(OSError):
    """An HTTP client's error that keeps the operating system's inside."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__(os_error.errno, f"Cannot connect to host: {os_error.strerror}")
        self.os_error = os_error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "connection refused"),
        (WrappedByClient(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), "connection refused"),
        (
            OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 9), [Errno 111] Connect"),
            "connection refused",
        ),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "connection closed without a response"),
        (asyncio.IncompleteReadError(b"", 1), "connection closed without a response"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no route to the host"),
        (ValueError("bad status line"), "no response: bad status line"),
        (ValueError(), "no response: ValueError"),
    ],
)
def test_a_replica_that_cannot_be_reached_is_down(error: Exception, words: str) -> None:
    assert result_of_error(error, 1.0) == ProbeResult(False, "down", words)


@pytest.mark.parametrize("error", [TimeoutError(), OSError(errno.ETIMEDOUT, "timed out")])
def test_silence_is_told_apart_from_refusal(error: Exception) -> None:
    result = result_of_error(error, 1.0)
    assert result == ProbeResult(False, "down", "no response in 1.0 s", inconclusive=True)


@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_AGAIN])
def test_so_is_a_name_that_cannot_be_looked_up(number: int) -> None:
    result = result_of_error(socket.gaierror(number, "Name or service not known"), 1.0)
    assert result == ProbeResult(False, "down", "the host name is unknown", inconclusive=True)


async def test_a_real_refused_connection_reads_as_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(OSError) as caught:  # noqa: PT011 - which error it is, is the question
            await asyncio.open_connection(*bound.getsockname())
    assert result_of_error(caught.value, 1.0).words == "connection refused"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (LOADING, "Loading model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"message": "hold on"}', "hold on"),
        (b"plain words\n", "plain words"),
        (b"<html><body>nginx</body></html>", ""),
        (b'{"error": {"message": 5}}', ""),
        (b"[1, 2]", ""),
        (b"[" * 50_000, ""),
        (b"{broken", ""),
        (b"\xff\xfe\x00 bytes", "\ufffd\ufffd bytes"),
        (b"", ""),
    ],
)
def test_the_message_inside_a_body(body: bytes, message: str) -> None:
    assert message_of(body) == message


def test_words_stay_one_short_line() -> None:
    words = status_words(500, b"line one\nline two " + b"x" * 5000)
    assert words.startswith("500 line one line two")
    assert len(words) == MAX_WORDS
    assert status_words(599) == "599"
