"""A fleet that falls back to another, before scripted replicas, and requests to it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from routing.contract.policy import Policy
from tests.routing.proxy.rig import (
    LIMIT_S,
    Answer,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Script,
    Seen,
    answer_body,
    answer_bytes,
)

EVERY_CAUSE = [
    *("no_eligible_replica", "no_place", "replicas_failed", "first_token", "deadline"),
    "context_length_exceeded",
]
CHAT_PATH = b"/v1/chat/completions"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = [
    b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
]
WHOLE = b"".join(EVENTS)


async def says(connection: ReplicaConnection, seen: Seen) -> None:
    """Answers with its name, streamed if it is asked to."""
    if json.loads(seen.body or b"{}").get("stream"):
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS)
        connection.transport.write(HEAD + chunks + b"0\r\n\r\n")
        return
    await answer_body(b'{"choices":[{"message":{"content":"ok"}}]}')(connection, seen)


def error(status: int, text: bytes = b"no", fields: bytes = b"") -> Script:
    return answer_bytes(
        b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(text), fields, text)
    )


LOST = answer_bytes(b"", "rst")


async def silent(connection: ReplicaConnection, seen: Seen) -> None:
    """Never answers."""


def policy(*fallback: dict[str, Any], **fields: Any) -> Policy:
    timeouts = {"connect_s": LIMIT_S, **fields.pop("timeouts", {})}
    given = {"strategy": "round_robin", "slow_start_s": 0, "timeouts": timeouts, "fallback": list(fallback)}
    return msgspec.convert({**given, **fields}, Policy)


def to(fleet: str = "small", *causes: str, included: bool = False) -> dict[str, Any]:
    return {"fleet": fleet, "causes": list(causes) or EVERY_CAUSE, "included": included}


class Two:
    """``large`` falls back to ``small``, which its replicas call ``org/Small``."""

    def __init__(self, rig: Rig, large: list[Replica], small: list[Replica]) -> None:
        self.rig, self.large, self.small = rig, large, small

    def counters(self, fleet: str) -> Any:
        return self.rig.table.fleets[fleet].counters

    def check(self, asked: int, fell: int, cause: str = "") -> None:
        """The totals add up: so many requests of clients, so many of which fell back."""
        large, small = self.counters("large"), self.counters("small")
        assert large.requests == asked
        assert small.requests == fell
        assert large.fallbacks == ({"small": {cause: fell}} if fell else {})
        for one in (large, small):
            fallen = sum(count for causes in one.fallbacks.values() for count in causes.values())
            assert one.requests == one.answered + one.cancelled + fallen + one.in_flight, one


async def two_fleets(rig: Rig, large: int = 1, small: int = 1, **fields: Any) -> Two:
    """So many replicas each. ``fields``: of the policy of ``large``."""
    replicas = [await rig.replica(f"large{number}") for number in range(large)]
    others = [await rig.replica(f"small{number}") for number in range(small)]
    for one in (*replicas, *others):
        one.script = says
    fallback = fields.pop("fallback", [to()])
    rig.fleet(*replicas, name="large", protocol="openai", policy=policy(*fallback, **fields))
    rig.fleet(
        *others, name="small", protocol="openai", served_model="org/Small", policy=policy(), default=False
    )
    return Two(rig, replicas, others)


def chat(
    stream: bool = False, model: str = "large", path: bytes = CHAT_PATH, fields: bytes = b"", **more: Any
) -> bytes:
    body = json.dumps({"model": model, "stream": stream, "messages": [], **more}).encode()
    head = b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n%b\r\n" % (path, len(body), fields)
    return head + body


async def ask(client: Client, stream: bool = False, **more: Any) -> Answer:
    return await client.ask(chat(stream, **more))


def served_by_small(answer: Answer, cause: str, stream: bool = False) -> None:
    """The answer is whole, and says who has served it and why."""
    assert answer.status == 200, answer
    assert answer.complete
    assert answer.body == WHOLE if stream else b'"ok"' in answer.body
    assert answer.get(b"x-switchyard-fleet") == [b"small"]
    assert answer.get(b"x-switchyard-model") == [b"org/Small"]
    assert answer.get(b"x-switchyard-fallback") == [cause.encode()]
    assert answer.get(b"x-switchyard-replica")[0].startswith(b"small")


def model_asked(replica: Replica) -> Any:
    return json.loads(replica.requests[-1].body)["model"]
