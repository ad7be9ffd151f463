"""What a probe does to a replica and what it makes of the answer, over real sockets."""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from controlplane.probes import prober
from controlplane.probes.probe_loop import probe_loop
from controlplane.probes.prober import ProbesOverdue, ReplicaProbe, ReplicaProbeResult, probe
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from routing.contract.table import ApiProtocol
from tests import needs
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer, says
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[3]


def question(
    url: str,
    uid: str = "u",
    *,
    protocol: ApiProtocol = "openai",
    has_passed: bool = True,
    wait_s: float = 0.0,
    **settings: object,
) -> ReplicaProbe:
    settings = {"preset": "http", "path": "/health", "timeout_s": 5.0} | settings
    checks = checks_of(Probe(**settings), protocol, url, "digits")  # type: ignore[arg-type]
    return ReplicaProbe(uid, url, checks, has_passed, wait_s)


def ask(*questions: ReplicaProbe) -> list[ReplicaProbeResult]:
    return list(probe(questions))


def words(finding: ReplicaProbeResult) -> tuple[bool, str, str]:
    return finding.verdict.passed, finding.verdict.hint, finding.verdict.words


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


def test_a_ready_server_passes(server: HttpServer) -> None:
    [finding] = ask(question(server.url))
    assert words(finding) == (True, "ready", "200 OK")
    assert 0 < finding.took_s < 5
    assert server.requests[0].startswith(b"GET /health HTTP/1.1\r\n")
    assert b"User-Agent: switchyard-probe" in server.requests[0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (servers.loading, (False, "unready", "503 Loading model")),
        (says(500, b"oops"), (False, "down", "500 oops")),
        (servers.reset, (False, "down", "connection closed without a response")),
    ],
)
def test_failures_in_words(
    server: HttpServer, answer: servers.Answer, expected: tuple[bool, str, str]
) -> None:
    server.answer = answer
    [finding] = ask(question(server.url, preset="llama.cpp", path=None))
    assert words(finding) == expected
    assert not finding.verdict.inconclusive


def test_nobody_listening_is_down_at_once() -> None:
    [finding] = ask(question(f"http://127.0.0.1:{free_port()}"))
    assert words(finding) == (False, "down", "connection refused")


def test_an_unknown_name_is_down() -> None:
    [finding] = ask(question("http://no-such-host.invalid:8000"))
    assert words(finding)[:2] == (False, "down")
    assert "unknown" in finding.verdict.words


@pytest.mark.parametrize("answer", [servers.hang, servers.drip])
def test_an_answer_that_does_not_end_in_time_is_a_timeout(server: HttpServer, answer: servers.Answer) -> None:
    server.answer = answer
    [finding] = ask(question(server.url, timeout_s=0.3))
    assert finding.verdict.inconclusive
    assert finding.verdict.words == "no response in 0.3 s"
    assert finding.took_s >= 0.3


def test_one_that_hangs_delays_nobody_else(server: HttpServer) -> None:
    with HttpServer(servers.hang) as hanging:
        questions = [question(hanging.url, "hangs", timeout_s=2.0)]
        questions += [question(server.url, f"u{number}", timeout_s=2.0) for number in range(10)]
        found = ask(*questions)
    assert found[-1].uid == "hangs"
    assert all(finding.verdict.passed for finding in found[:-1])


def test_of_an_endless_body_only_the_beginning_is_read(server: HttpServer) -> None:
    server.answer = servers.endless
    [finding] = ask(question(server.url))
    assert finding.verdict.passed


def test_redirects_are_not_followed(server: HttpServer) -> None:
    with HttpServer(servers.ready) as elsewhere:
        server.answer = says(302, header=f"Location: {elsewhere.url}/health\r\n".encode())
        [finding] = ask(question(server.url))
        assert elsewhere.connections == 0
    assert words(finding)[:2] == (False, "unready")


def test_concurrency_is_bounded(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_loop(), "most_at_once", 10)
    server.answer = servers.slowly(0.1)
    found = ask(*(question(server.url, f"u{number}") for number in range(30)))
    assert len({finding.uid for finding in found if finding.verdict.passed}) == 30
    assert 1 < server.most_waiting <= 10


def test_one_that_waited_until_nobody_wants_its_result_is_not_sent(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_loop(), "most_at_once", 1)
    server.answer = servers.slowly(0.4)
    late = dataclasses.replace(question(server.url, "late"), begin_within_s=0.2)
    assert [finding.uid for finding in ask(question(server.url, "first"), late)] == ["first"]
    assert len(server.requests) == 1


def test_a_failed_readiness_probe_is_followed_by_a_liveness_probe(server: HttpServer) -> None:
    server.answer = says(200, path="/v2/health/live")
    asked = question(server.url, protocol="open-inference", preset="kserve-v2", path=None)
    [alive] = ask(asked)
    assert words(alive)[:2] == (False, "unready")
    server.answer = says(500)
    [dead] = ask(asked)
    assert words(dead)[:2] == (False, "down")
    paths = [head.split(b" ")[1] for head in server.requests]
    assert paths == [b"/v2/models/digits/ready", b"/v2/health/live"] * 2


def test_a_base_path_and_a_body_go_out_as_written(server: HttpServer) -> None:
    ask(question(server.url + "/base", path="/check?deep=1", body='{"x":1}', method="POST"))
    head = server.requests[0]
    assert head.startswith(b"POST /base/check?deep=1 HTTP/1.1\r\n")
    assert b"Content-Length: 7" in head


def test_it_waits_until_a_replica_is_due(server: HttpServer) -> None:
    began = time.monotonic()
    found = ask(question(server.url, "later", wait_s=0.4), question(server.url, "now"))
    assert [finding.uid for finding in found] == ["now", "later"]
    assert time.monotonic() - began >= 0.4


def test_whoever_takes_results_slowly_makes_no_probe_time_out(server: HttpServer) -> None:
    server.answer = servers.slowly(0.3)
    found = []
    for finding in probe([question(server.url, f"u{n}", timeout_s=2.0, wait_s=n * 0.1) for n in range(3)]):
        found.append(finding.verdict.passed)
        time.sleep(0.9)  # as a database that makes its writers wait
    assert found == [True, True, True]


def test_probes_that_never_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a thread hangs where no time limit reaches."""
    monkeypatch.setattr(prober, "OVERDUE_S", 0.2)
    monkeypatch.setattr(prober, "send", lambda *arguments: None)
    with pytest.raises(ProbesOverdue, match="2 probes have not ended after 0 s"):
        ask(*(question("http://127.0.0.1:9", f"u{n}", timeout_s=0.05) for n in range(2)))


def test_no_questions_need_no_answer() -> None:
    assert ask() == []


def test_a_real_llama_cpp_server_is_refused_and_then_ready(tmp_path: Path) -> None:
    needs.need(find_spec("xllamacpp"), "no xllamacpp here; this enables the test: make install")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "examples.tiny_llm.server", "--replica", "quick"]
    with ExitStack() as stack:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--models", str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        seen: list[str] = []
        until = time.monotonic() + 60
        while not seen or seen[-1] != "200 OK":
            [finding] = ask(question(url, preset="llama.cpp", path=None, has_passed=False))
            if not seen or seen[-1] != finding.verdict.words:
                seen.append(finding.verdict.words)
            assert time.monotonic() < until, seen
            assert process.poll() is None
            time.sleep(0.02)
    assert seen[0] == "connection refused"
    assert set(seen) <= {"connection refused", "503 Loading model", "200 OK"}
