"""The table: sixteen ways in which a provider fails, as scripts of the replica that does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.routing.proxy.answers.calls import CHAT, Call
from tests.routing.proxy.answers.outcomes import FILTERED, PARTLY, WHOLE
from tests.routing.proxy.rig import ReplicaConnection, linger_not

AT_TOKEN = 40
"""Of sixty, where a stream breaks."""
LATE_S = 0.7
"""Stands for 20 s: all limits are as much shorter (:mod:`tests.routing.proxy.answers.setups`)."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@dataclass
class Asked:
    """One request at a scripted replica, which counts so many tokens as the prompt's."""

    call: Call
    connection: ReplicaConnection
    request: dict[str, Any]
    prompt_tokens: int
    number: int
    """Of the requests that this replica has had before."""

    @property
    def streams(self) -> bool:
        return bool(self.request["stream"])

    def write(self, data: bytes) -> None:
        if not self.connection.closed and not self.connection.transport.is_closing():
            self.connection.transport.write(data)

    def respond(self, status: int, error: dict[str, Any], fields: str = "") -> None:
        body = json.dumps({"error": error}).encode()
        head = f"HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n{fields}"
        self.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    async def events(self, tokens: int | None = None) -> None:
        """The stream's head, what comes before the first token, and so many tokens; ``None``: all of it."""
        begin, rest = self.call.events(self.request, self.prompt_tokens)
        await self.send([*begin, *(rest if tokens is None else rest[:tokens])], HEAD)

    async def send(self, events: Sequence[bytes], before: bytes = b"") -> None:
        self.write(before)
        for event in events:
            self.write(b"%x\r\n%b\r\n" % (len(event), event))
            await asyncio.sleep(0)

    def end(self) -> None:
        self.write(b"0\r\n\r\n")

    def body_until(self, part: float, chunked: bool = False) -> None:
        """Of an answer that is not streamed: its head, and that part of its body."""
        body = self.call.body(self.prompt_tokens)
        sent = body[: int(part * len(body))]
        if chunked:
            self.write(JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(sent), sent))
        else:
            self.write(JSON_HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), sent))

    def reset(self) -> None:
        linger_not(self.connection.transport)
        self.connection.transport.abort()


Behaviour = Callable[[Asked], Awaitable[None]]


async def healthy(asked: Asked) -> None:
    if asked.streams:
        await asked.events()
        asked.end()
    else:
        asked.body_until(1.0)


def responds(status: int, code: str, fields: str = "", once: bool = False) -> Behaviour:
    async def behave(asked: Asked) -> None:
        if once and asked.number:
            await healthy(asked)
        else:
            asked.respond(status, {"message": "no", "type": "error", "code": code}, fields)

    return behave


async def resets(asked: Asked) -> None:
    asked.reset()


async def is_silent(asked: Asked) -> None:
    pass


async def is_late(asked: Asked) -> None:
    """Its head comes at once, as servers on uvicorn send it."""
    if asked.streams:
        asked.write(HEAD)
        await asyncio.sleep(LATE_S)
        begin, rest = asked.call.events(asked.request, asked.prompt_tokens)
        await asked.send([*begin, *rest])
        asked.end()
    else:
        await asyncio.sleep(LATE_S)
        await healthy(asked)


async def is_cut(asked: Asked) -> None:
    await _break_off(asked)
    await asyncio.sleep(0.02)
    asked.reset()


async def stalls(asked: Asked) -> None:
    await _break_off(asked)


async def has_a_bad_chunk(asked: Asked) -> None:
    await _break_off(asked, chunked=True)
    await asyncio.sleep(0.02)
    asked.write(b"no size\r\n")


async def has_bad_json(asked: Asked) -> None:
    """And ends well in HTTP."""
    if asked.streams:
        await asked.events(AT_TOKEN)
        await asyncio.sleep(0.02)
        await asked.send([b'data: {"choices": [{"index": 0, "del\n\n'])
        asked.end()
    else:
        body = asked.call.body(asked.prompt_tokens)[:100]
        asked.write(JSON_HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body))


async def begins_with_bad_json(asked: Asked) -> None:
    await asked.send([b"data: <html>busy</html>\n\n"], HEAD)
    asked.end()


async def begins_with_an_error(asked: Asked) -> None:
    """Its head was sent before it knew, as vLLM's is."""
    await asked.send(
        [b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}\n\n'],
        HEAD,
    )
    asked.end()


async def ends_early(asked: Asked) -> None:
    await asked.events(AT_TOKEN)
    await asyncio.sleep(0.02)
    asked.end()


async def ends_before_a_token(asked: Asked) -> None:
    """After the role alone."""
    await asked.events(0)
    await asyncio.sleep(0.02)
    asked.end()


async def filters(asked: Asked) -> None:
    if asked.streams:
        begin, rest = CHAT.events(asked.request, asked.prompt_tokens)
        last = json.loads(rest[-3].removeprefix(b"data: "))
        last["choices"][0]["finish_reason"] = "content_filter"
        await asked.send([*begin, *rest[:AT_TOKEN], b"data: %b\n\n" % json.dumps(last).encode()], HEAD)
        await asked.send(rest[-2:])
        asked.end()
    else:
        body = CHAT.body(asked.prompt_tokens).replace(b'"stop"', b'"content_filter"')
        asked.write(JSON_HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body))


async def refuses_prefill(asked: Asked) -> None:
    if asked.request.get("continue_final_message"):
        asked.respond(400, {"message": "no prefill", "type": "BadRequestError", "code": 400})
    else:
        await healthy(asked)


async def flaps(asked: Asked) -> None:
    if asked.number % 2:
        await healthy(asked)
    else:
        await responds(500, "internal")(asked)


async def _break_off(asked: Asked, chunked: bool = False) -> None:
    if asked.streams:
        await asked.events(AT_TOKEN)
    else:
        asked.body_until(2 / 3, chunked)


@dataclass(frozen=True)
class Fault:
    """``words``: for the page. ``gets``: by a setup's name, what the client gets of a plain request and of a
    streamed one (:mod:`tests.routing.proxy.answers.outcomes`); ``None``: it has no such request. With all
    setups together it is the better of what it gets with each."""

    name: str
    words: str
    fails: Behaviour
    """What the failing replica does."""
    gets: dict[str, tuple[str | None, str | None]]
    other: Behaviour = healthy
    """What the one beside it does."""
    is_retried: bool = True
    """Whether another replica or fleet may be asked at all."""

    def expected(self, setup: str, stream: bool) -> str | None:
        if setup != "together":
            return self.gets[setup][stream]
        rescued, fallen = self.gets["rescued"][stream], self.gets["fallback"][stream]
        return fallen if fallen == WHOLE else rescued


def in_each(*pairs: tuple[str | None, str | None]) -> dict[str, tuple[str | None, str | None]]:
    """In the order of the setups."""
    return dict(zip(("alone", "beside", "rescued", "fallback"), pairs, strict=True))


_BOTH = (WHOLE, WHOLE)
_STREAM = (None, WHOLE)
_HALF = (WHOLE, PARTLY)


def _both(outcome: str) -> tuple[str, str]:
    return outcome, outcome


FAULTS = [
    Fault(
        "429 with Retry-After",
        "429 with `Retry-After`",
        responds(429, "rate_limited", "retry-after: 30\r\n"),
        in_each(_both("429 `rate_limited`"), _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "429",
        "429 without it",
        responds(429, "rate_limited"),
        in_each(_both("429 `rate_limited`"), _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "500 once",
        "500, once",
        responds(500, "internal", once=True),
        in_each(_both("500 `internal`"), _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "503",
        "503 for a minute",
        responds(503, "overloaded"),
        in_each(_both("503 `overloaded`"), _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "reset",
        "the connection is reset before the head",
        resets,
        in_each(_both("502 `replica_lost`"), _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "silence",
        "it is silent, and nothing is known of the fleet yet",
        is_silent,
        in_each(
            _both("504 `timeout`"),
            _both("504 `timeout`"),
            ("504 `timeout`", WHOLE),
            ("504 `timeout`", WHOLE),
        ),
    ),
    Fault(
        "late",
        "the first token comes after 20 s; a stream's head comes at once",
        is_late,
        in_each(_BOTH, _BOTH, _BOTH, _BOTH),
    ),
    Fault(
        "cut",
        "the connection is reset within the answer: a stream at token 40 of 60",
        is_cut,
        in_each(("502 `bad_response`", PARTLY), _HALF, _BOTH, _HALF),
    ),
    Fault(
        "stall",
        "nothing more comes there",
        stalls,
        in_each(("504 `timeout`", PARTLY), _HALF, _BOTH, _HALF),
    ),
    Fault(
        "bad chunk",
        "what comes there is no chunk",
        has_a_bad_chunk,
        in_each(("502 `bad_response`", PARTLY), _HALF, _BOTH, _HALF),
    ),
    Fault(
        "bad JSON",
        "what comes there is no whole JSON, and the response ends well in HTTP",
        has_bad_json,
        in_each(("502 `truncated`", PARTLY), _HALF, _HALF, _HALF),
    ),
    Fault(
        "bad beginning",
        "the first event is no JSON",
        begins_with_bad_json,
        in_each((None, "502 `bad_response`"), _STREAM, _STREAM, _STREAM),
    ),
    Fault(
        "error event",
        "the first event is an error of the server",
        begins_with_an_error,
        in_each((None, "502 `error_event`"), _STREAM, _STREAM, _STREAM),
    ),
    Fault(
        "early end",
        "the stream ends at token 40 without `finish_reason` and `[DONE]`",
        ends_early,
        in_each((None, PARTLY), (None, PARTLY), _STREAM, (None, PARTLY)),
    ),
    Fault(
        "empty",
        "it ends so before a token",
        ends_before_a_token,
        in_each((None, "502 `truncated`"), _STREAM, _STREAM, _STREAM),
    ),
    Fault(
        "too long",
        "400 `context_length_exceeded`",
        responds(400, "context_length_exceeded"),
        in_each(*[_both("400 `context_length_exceeded`")] * 3, _BOTH),
        responds(400, "context_length_exceeded"),
    ),
    Fault(
        "filter",
        "`finish_reason` is `content_filter`",
        filters,
        in_each(*[_both(FILTERED)] * 4),
        filters,
        is_retried=False,
    ),
    Fault(
        "filter refuses",
        "400 `content_filter`",
        responds(400, "content_filter"),
        in_each(*[_both("400 `content_filter`")] * 4),
        responds(400, "content_filter"),
        is_retried=False,
    ),
    Fault(
        "no prefill",
        "the stream is cut off at token 40, and the other replica refuses to go on with it",
        is_cut,
        in_each(*[(None, PARTLY)] * 4),
        refuses_prefill,
    ),
]

FLAPPING = Fault(
    "flapping",
    "it responds 500 to every other of twenty requests",
    flaps,
    in_each(_both("10 whole, 10 500 `internal`"), *[_both("20 whole")] * 3),
)
"""Its outcomes are of all twenty."""
