"""Held beginning: a response that has come in part, and of which the client has got nothing yet.

Theory. What was sent to the client counts as begun, and then no other replica can give the answer anew. So
the beginning of an answer is held as long as it is worth nothing to the client: of a stream until there is
content, for its head, comments, and an event that only names a role are none; of any other answer until it is
whole. If the replica is lost meanwhile, or ends its stream before the answer, that is as if it had sent
nothing: the request goes to another one. Only answers to inference that may be sent twice are held.

A stream is held for a second at most, or as long as its fleet gives it to a first token, if that is longer:
before that a second replica could still take its place. Other answers are held up to
:data:`MOST_HELD_BYTES`. What is held counts among the bodies that are kept (:mod:`~..limits.kept_answers`),
and is sent at once where room is short.

As long as it is held, ``streaming_response`` is ``None``: for everybody else the response has not begun.
"""

from __future__ import annotations

from math import inf

from routing.http.response_head import ResponseHead
from routing.protocols import answer_shape, stream_end
from routing.protocols.stream_start import Start, StreamStart
from routing.proxy.exchange import broken_stream, failed_attempt
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.retry_policy import replay_is_safe
from routing.proxy.exchange.state import HeldInFlight

HELD_S = 1.0
MOST_HELD_BYTES = 65_536
_FAILED = (Start.MALFORMED, Start.FAILED)


class HeldBeginning:
    """Of one response. Implements :class:`routing.proxy.limits.kept_answers.AnswerKeeper`."""

    __slots__ = ("body", "head", "start", "until")

    def __init__(self, head: ResponseHead, body: bytes, start: StreamStart | None, until: float) -> None:
        self.head = head
        self.body = body
        self.start = start
        """Reads the stream until there is content; ``None``: it is no stream."""
        self.until = until
        """``time.monotonic()`` seconds."""

    def give_up_kept(self) -> None:
        self.until = 0.0


def begin(exchange: AttemptOwner, head: ResponseHead, body: bytes, now: float) -> None:
    """A response has begun that is not complete: hold it, or forward it."""
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    pool = exchange.pool
    assert pool is not None
    if head.status != 200 or not answer_shape.belongs_to(mark, pool.protocol):
        exchange.begin_streaming(head, body, now)
        return
    is_stream = answer_shape.is_event_stream(head.block)
    start: StreamStart | None = None
    if is_stream and stream_end.follows(mark) and not answer_shape.is_encoded(head.block):
        start = StreamStart(mark)
    found = Start.CONTENT if start is None and is_stream else _look(start, body)
    if found is not Start.CONTENT and _may_be_held(exchange, head, is_stream):
        if found in _FAILED:
            _fail(exchange, found)
            return
        until = now + _hold_s(exchange) if is_stream else inf
        if _hold(exchange, HeldBeginning(head, body, start, until), now):
            return
    exchange.begin_streaming(head, body, now, start if found is Start.NOTHING else None)


def _hold(exchange: AttemptOwner, held: HeldBeginning, now: float) -> bool:
    """Whether there is room for it."""
    if len(held.body) > MOST_HELD_BYTES or not exchange.proxy.bodies.kept.grow(held, len(held.body)):
        return False
    exchange.held = held
    if held.start is None:
        exchange.progress(now)
        if exchange.second is not None:
            exchange.second.give_up("lost", now)
    exchange.attempt.heard(now)  # type: ignore[union-attr]
    return True


def _may_be_held(exchange: AttemptOwner, head: ResponseHead, is_stream: bool) -> bool:
    """Whether it may be sent twice, and how long it is will be known once it is whole."""
    pool = exchange.pool
    assert pool is not None
    return (
        (is_stream or head.chunked or 0 <= head.content_length <= MOST_HELD_BYTES)
        and exchange.upload is None
        and exchange.pinned is None
        and replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
    )


def _look(start: StreamStart | None, piece: bytes) -> Start:
    return Start.NOTHING if start is None or not piece else start.feed(piece)


def add(exchange: AttemptOwner, piece: bytes, complete: bool, now: float) -> None:
    """More has come of a response whose beginning is held."""
    held, attempt = exchange.held, exchange.attempt
    assert held is not None
    assert attempt is not None
    attempt.heard(now)
    if held.start is None:
        exchange.progress(now)
    held.body += piece
    if complete:
        _completed(exchange, held, now)
        return
    has_room = exchange.proxy.bodies.kept.grow(held, len(piece)) and len(held.body) <= MOST_HELD_BYTES
    found = _look(held.start, piece)
    if found in _FAILED:
        _fail(exchange, found)
    elif found is Start.CONTENT:
        held.start = None
        _forward(exchange, held, now)
    elif not has_room:
        _forward(exchange, held, now)


def look(exchange: AttemptOwner, now: float) -> None:
    """Time has passed: forward what has been held for long enough."""
    held = exchange.held
    if held is not None and now >= held.until and exchange.second is None:
        _forward(exchange, held, now)


def _forward(exchange: AttemptOwner, held: HeldInFlight, now: float) -> None:
    """The response begins for the client."""
    drop(exchange)
    exchange.begin_streaming(held.head, held.body, now, held.start)


def _completed(exchange: AttemptOwner, held: HeldInFlight, now: float) -> None:
    head, body = held.head, held.body
    drop(exchange)
    if head.chunked or head.content_length >= 0:
        exchange.response(head, body, True, now)
        return
    exchange.upstream_is_done()
    if broken_stream.is_truncated_whole(exchange, head, body):
        failed_attempt.fail_truncated(exchange)
    else:
        exchange.begin_streaming(head, body, now)
        exchange.data(b"", True, now)


def _fail(exchange: AttemptOwner, found: Start) -> None:
    exchange.drop_upstream()
    if found is Start.FAILED:
        failed_attempt.fail_with_event(exchange)
    else:
        failed_attempt.fail_malformed(exchange)


def drop(exchange: AttemptOwner) -> None:
    """Hold nothing any more."""
    held = exchange.held
    if held is not None:
        exchange.held = None
        exchange.proxy.bodies.kept.end(held)


def _hold_s(exchange: AttemptOwner) -> float:
    seconds, attempt = exchange.pool.seconds, exchange.attempt  # type: ignore[union-attr]
    limit_s = seconds.stream_limit_s(attempt.own_work) if seconds.of_streams else 0.0  # type: ignore[union-attr]
    return max(HELD_S, limit_s) if limit_s < inf else HELD_S
