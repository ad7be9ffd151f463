"""llama.cpp behind a proxy: loading, ready, streams, cut and taken over when one is killed under load."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.probes import prober
from routing.contract.load_report import ReportedLoad
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from tests.proxy_process import until
from tests.servers.conftest import Servers
from tests.servers.running import PROBE, Front, LlamaCpp, Stream, b_answers_until_a_is_back
from tests.system.stack import Traffic

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]

COMPLETIONS = "/v1/completions"


REPLAY = {"retries": {"budget_percent": 100}}
"""The share of a few requests a second may be less than those that a killed server had."""


def ask_for(tokens: int, model: str = "tiny-llm") -> dict[str, Any]:
    return {"model": model, "prompt": "Once upon", "max_tokens": tokens}


class SlowToLoad(LlamaCpp):
    vocabulary = 100_000


@pytest.fixture(scope="module")
def pair(servers: Servers) -> tuple[LlamaCpp, LlamaCpp]:
    return servers.llama


@pytest.fixture(scope="module")
def late(servers: Servers) -> Iterator[LlamaCpp]:
    """Not started yet."""
    server = SlowToLoad("llama-late", servers.llama[0].folder)
    yield server
    if server.process is not None:
        server.stop()


@pytest.fixture(scope="module")
def front(
    pair: tuple[LlamaCpp, LlamaCpp], late: LlamaCpp, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    fleet = {
        "name": "tiny-llm",
        "aliases": ["chat"],
        "protocol": "openai",
        "policy": {"strategy": "round_robin", "slow_start_s": 0, "ejection": {"base_s": 0.5}, **REPLAY},
        "probe": {"preset": "llama.cpp", **PROBE},
        "replicas": [{"name": name, "url": server.url} for name, server in zip("ab", pair, strict=True)],
    }
    slow = {"name": "late", "aliases": [], "replicas": [{"name": "late", "url": late.url}]}
    running = Front(tmp_path_factory.mktemp("llama"), [fleet, {**fleet, **slow}])
    yield running
    running.proxy.stop()


def test_until_the_model_is_loaded_nobody_is_sent_there(front: Front, late: LlamaCpp) -> None:
    late.start()
    seen: list[tuple[str, int, str]] = []
    """What the server said of itself just before, and what a client then got through the proxy."""
    end = time.monotonic() + 60
    while not seen or seen[-1][1] != 200:
        said = late.says("/health")
        answer = front.ask(COMPLETIONS, ask_for(4, "late"))
        seen.append((said, answer.status, answer.replica))
        if answer.status != 200:
            assert (answer.status, answer.replica) == (503, ""), answer
            assert answer.json["error"]["message"].startswith("1 replica of fleet late: 1 ")
        assert time.monotonic() < end, (seen[-1], late.log)
    words = [said for said, status, _ in seen if status == 503]
    assert any(said.startswith('503 {"error":{"message":"Loading model"') for said in words), set(words)
    assert seen[-1][1:] == (200, "late")
    assert seen[-1][0] == '200 {"status":"ok"}'
    assert "replica late of fleet late: checking → ready: 200 OK" in front.proxy.log
    late.stop()
    front.until_health("late", "late", "down")


def test_answers_and_streams(front: Front, pair: tuple[LlamaCpp, LlamaCpp]) -> None:
    for name in "ab":
        front.until_health("tiny-llm", name, "ready")
    answers = [front.ask(COMPLETIONS, ask_for(8)) for _ in range(4)]
    assert {(answer.status, answer.replica) for answer in answers} == {(200, "a"), (200, "b")}
    assert {answer.json["usage"]["completion_tokens"] for answer in answers} == {8}

    messages = [{"role": "user", "content": "Hello"}]

    def first_event_while_it_computes() -> bool:
        stream = front.stream(
            "/v1/chat/completions", {"model": "chat", "messages": messages, "max_tokens": 1800}
        )
        assert stream.event() is not None
        assert len(stream.events) == 1
        computes = any(server.ask("/slots").body.count(b'"is_processing":true') for server in pair)
        stream.to_the_end()
        assert not stream.cut
        assert len(stream.events) > 300
        return computes

    # A fast machine is done before it is asked now and then; behind a proxy that holds events back, always.
    until(first_event_while_it_computes, "an event comes before the answer is complete")


def test_a_client_that_leaves_frees_the_slot(front: Front, pair: tuple[LlamaCpp, LlamaCpp]) -> None:
    stream = front.stream(COMPLETIONS, ask_for(1900))
    assert stream.event() is not None
    stream.leave()
    until(
        lambda: not any(server.ask("/slots").body.count(b'"is_processing":true') for server in pair),
        "no slot is busy",
    )
    until(lambda: front.metric("cancelled_total", "tiny-llm") == 1, "the proxy has counted it")


def test_its_own_page_tells_what_it_works_on(pair: tuple[LlamaCpp, LlamaCpp]) -> None:
    url = pair[0].url
    checks = checks_of(Probe(preset="llama.cpp"), "openai", url, "tiny-llm")

    def told() -> ReportedLoad | None:
        [finding] = prober.probe([prober.ReplicaProbe("a", url, checks, True)])
        return finding.load

    def keep_streaming() -> None:
        while not over.is_set():
            Stream(pair[0].port, COMPLETIONS, ask_for(1900)).to_the_end()

    until(lambda: told() == ReportedLoad(running=0, waiting=0), "it is idle")
    # On a fast machine one stream may be over before it is asked for: each client begins another.
    over = threading.Event()
    clients = [threading.Thread(target=keep_streaming, daemon=True) for _ in range(2)]
    for client in clients:
        client.start()
    try:
        until(lambda: told() == ReportedLoad(running=2, waiting=0), "it works on both")
    finally:
        over.set()
        for client in clients:
            client.join(60)
    until(lambda: told() == ReportedLoad(running=0, waiting=0), "it is idle again")


def test_killed_under_load_and_started_again(front: Front, pair: tuple[LlamaCpp, LlamaCpp]) -> None:
    a = pair[0]
    streams: list[Stream] = []
    over = threading.Event()

    def keep_streaming() -> None:
        while not over.is_set():
            streams.append(front.stream(COMPLETIONS, ask_for(300)))
            streams[-1].to_the_end()

    threads = [threading.Thread(target=keep_streaming, daemon=True) for _ in range(2)]
    with Traffic(front, COMPLETIONS, ask_for(20), clients=2) as traffic:  # type: ignore[arg-type]
        for thread in threads:
            thread.start()
        until(lambda: {stream.replica for stream in streams} == {"a", "b"}, "streams come from both")
        a.stop(signal.SIGKILL)
        b_answers_until_a_is_back(front, traffic, "tiny-llm", a)
        over.set()
    for thread in threads:
        thread.join(60)
    # What had not begun to answer was sent to b. A stream that had begun cannot be: it is cut, never mixed.
    assert traffic.failures_after_kill() == []
    cut = [stream for stream in streams if stream.cut]
    assert {stream.replica for stream in cut} <= {"a"}
    assert len(cut) <= 2
    assert {stream.status for stream in streams} == {200}
    assert front.metric("retries_total", "tiny-llm") >= 1
