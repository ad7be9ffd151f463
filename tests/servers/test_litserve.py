"""LitServe behind a proxy: loading, ready, streams, stopped under load."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy_process import until
from tests.servers.conftest import Servers
from tests.servers.running import PROBE, Front, LitServe, b_answers_until_a_is_back
from tests.system.stack import Traffic

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]

CHAT = "/v1/chat/completions"


def ask_for(words: int) -> dict[str, Any]:
    return {"model": "words", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": words}


@pytest.fixture(scope="module")
def pair(servers: Servers) -> tuple[LitServe, LitServe]:
    return servers.litserve


@pytest.fixture(scope="module")
def front(pair: tuple[LitServe, LitServe], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    policy = {"strategy": "round_robin", "slow_start_s": 0, "ejection": {"base_s": 0.5}}
    fleet = {
        "name": "words",
        "protocol": "openai",
        "policy": policy,
        "probe": {"preset": "litserve", **PROBE},
        "replicas": [{"name": name, "url": server.url} for name, server in zip("ab", pair, strict=True)],
    }
    running = Front(tmp_path_factory.mktemp("litserve"), [fleet])
    yield running
    running.proxy.stop()


def test_one_that_sets_up_gets_no_request(front: Front, pair: tuple[LitServe, LitServe]) -> None:
    a, b = pair
    a.until_it_says("/health", "200 ok")
    front.until_health("words", "a", "ready")
    assert b.says("/health") == "ConnectionRefusedError"
    assert front.until_health("words", "b", "checking")["eligible"] is False
    assert {front.ask(CHAT, ask_for(1)).replica for _ in range(4)} == {"a"}

    b.gate.touch()
    front.until_health("words", "b", "ready")
    assert "replica b of fleet words: checking → ready: 200 OK" in front.proxy.log
    assert {front.ask(CHAT, ask_for(1)).replica for _ in range(4)} == {"a", "b"}


def test_a_stream_arrives_word_by_word(front: Front) -> None:
    began = time.monotonic()
    stream = front.stream(CHAT, ask_for(25))
    assert "word0 " in (stream.event() or "")
    first = time.monotonic() - began
    stream.to_the_end()
    assert not stream.cut
    assert sum('"content":"word' in event for event in stream.events) == 25
    # A word each 20 ms: the first was here long before the last was made.
    assert time.monotonic() - began - first > 0.2


def test_stopped_under_load_and_started_again(front: Front, pair: tuple[LitServe, LitServe]) -> None:
    a = pair[0]
    with Traffic(front, CHAT, ask_for(5)) as traffic:  # type: ignore[arg-type]
        until(lambda: traffic.replicas() == {"a", "b"}, "both answer")
        begun = [front.stream(CHAT, ask_for(100))]
        while begun[-1].replica != "a":
            begun.append(front.stream(CHAT, ask_for(100)))
        assert begun[-1].event() is not None
        a.stop(signal.SIGKILL)
        b_answers_until_a_is_back(front, traffic, "words", a)
        assert [stream.replica for stream in begun if stream.to_the_end().cut] == ["a"]
    # Requests that had no answer yet were sent to b.
    assert traffic.failures_after_kill() == []
