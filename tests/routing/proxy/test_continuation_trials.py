"""Each replica of a fleet that continues answers is tried, where it takes no client's place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from routing.balancing.replica.state import Replica as PoolReplica
from routing.contract.policy import Policy
from routing.contract.probe import Probe
from routing.proxy import continuation_trials
from tests.routing.proxy.rig import Client, Gate, Replica, ReplicaConnection, Rig, Seen, until

CHAT = "/v1/chat/completions"
OVERHEAD = 5
"""Tokens of a message beside its text."""


class Server:
    """A model server of one character a token, whose chats know ``how`` to go on: ``continues``, ``echoes``,
    ``echoes_whole_answers`` (not streams), ``begins_anew``, ``refuses``, ``tells_no_usage``, ``is_ill``."""

    def __init__(self, replica: Replica, how: str) -> None:
        self.how = how
        self.asked: list[tuple[str, dict[str, Any]]] = []
        replica.script = self

    async def __call__(self, connection: ReplicaConnection, seen: Seen) -> None:
        path = seen.line.split(b" ")[1].decode()
        request = json.loads(seen.body)
        self.asked.append((path, request))
        if self.how == "is_ill":
            status, answer = 503, {}
        elif path != CHAT:
            status, answer = 200, {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 1}}
        else:
            status, answer = self._chat(request["messages"], request.get("stream", False))
        body, kind = json.dumps(answer).encode(), b"application/json"
        if request.get("stream") and status == 200:
            body, kind = b"data: " + body + b"\n\ndata: [DONE]\n\n", b"text/event-stream"
        connection.transport.write(
            b"HTTP/1.1 %d X\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (status, kind, len(body), body)
        )

    def _chat(self, messages: list[dict[str, str]], stream: bool) -> tuple[int, dict[str, Any]]:
        *before, last = messages
        begun = last["content"] if last["role"] == "assistant" else ""
        if begun and self.how == "refuses":
            return 400, {"error": {}}
        closed = messages if not begun or self.how == "begins_anew" else before
        tokens = sum(OVERHEAD + len(one["content"]) for one in closed) + OVERHEAD
        tokens += len(begun) if closed is before else 0
        echoes = self.how == "echoes" or (self.how == "echoes_whole_answers" and not stream)
        message = {"role": "assistant", "content": begun + "x" if echoes else "x"}
        answer: dict[str, Any] = {"choices": [{"delta" if stream else "message": message}]}
        if self.how != "tells_no_usage":
            answer["usage"] = {"prompt_tokens": tokens}
        return 200, answer


def fleet(rig: Rig, *replicas: Replica, preset: str = "vllm", **policy: Any) -> PoolReplica:
    values = {"continuation": "auto", "slow_start_s": 0, **policy}
    rig.fleet(*replicas, protocol="openai", probe=Probe(preset=preset), policy=Policy(**values))
    return rig.table.fleets["f"].replicas[0]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("continues", "continues chats and completions"),
        ("echoes", "continues chats and completions"),
        ("echoes_whole_answers", "continues chats and completions"),
        (
            "begins_anew",
            "continues completions: one letter that was to be continued made the prompt 6 tokens",
        ),
        ("refuses", "continues completions: /v1/chat/completions was answered with 400"),
        ("tells_no_usage", "continues completions: its answers do not say how many tokens"),
    ],
)
@pytest.mark.parametrize("preset", ["vllm", "llama.cpp"])
async def test_what_a_trial_shows(rig: Rig, how: str, words: str, preset: str) -> None:
    replica = await rig.replica()
    server = Server(replica, how)
    known = fleet(rig, replica, preset=preset).continuation
    await until(lambda: known.completions is not None)
    assert known.words().startswith(words)
    assert known.echoes is (how == "echoes")
    assert all(request["max_tokens"] == 1 for _, request in server.asked)
    told = [request.get("continue_final_message") for path, request in server.asked if path == CHAT]
    assert told[1:2] == ([True] if preset == "vllm" else [None])
    await until(lambda: not rig.proxy.continuation_trials.running)


async def test_a_server_of_unknown_kind_continues_completions_alone(rig: Rig) -> None:
    replica = await rig.replica()
    server = Server(replica, "continues")
    known = fleet(rig, replica, preset="openai").continuation
    await until(lambda: known.completions is not None)
    assert known.chats is False
    assert [path for path, _ in server.asked] == ["/v1/completions"]


async def test_no_answer_says_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation_trials, "UNKNOWN_FOR_S", 0.0)
    monkeypatch.setattr(continuation_trials, "LOOK_EVERY_S", 0.01)
    replica = await rig.replica()
    server = Server(replica, "is_ill")
    known = fleet(rig, replica).continuation
    await until(lambda: len(server.asked) > 2)
    assert known.completions is None
    server.how = "continues"
    await until(lambda: known.chats is True)


async def test_a_busy_replica_is_not_tried(rig: Rig, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation_trials, "LOOK_EVERY_S", 0.01)
    replica = await rig.replica()
    gate = Gate(replica)
    known = fleet(rig, replica, continuation="off", max_concurrency=1)
    client.send(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    await until(lambda: replica.requests)
    fleet(rig, replica, max_concurrency=1)
    looks: list[bool] = []

    def look(*_: object) -> bool:
        looks.append(real(*_))  # type: ignore[arg-type]
        return looks[-1]

    real = continuation_trials.has_room
    monkeypatch.setattr(continuation_trials, "has_room", look)
    await until(lambda: len(looks) > 3)
    assert not any(looks)
    assert len(replica.requests) == 1
    gate.open.set()
    await client.answer()
    Server(replica, "continues")
    await until(lambda: known.continuation.chats is True)


async def test_without_the_policy_nobody_is_tried(rig: Rig, client: Client) -> None:
    replica = await rig.replica()
    fleet(rig, replica, continuation="off")
    assert (await client.ask(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n")).status == 200
    assert len(replica.requests) == 1
    assert rig.proxy.continuation_trials._timer is None
