"""Answer check: whether what a replica has responded with 200 is an answer of its protocol.

It looks where the body passes anyway, at the responses that are inspected
(:mod:`routing.balancing.outlier.inspection`).
"""

from __future__ import annotations

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier import inspection
from routing.http.response_head import ResponseHead
from routing.protocols.answer_shape import (
    BodyInPieces,
    EventStream,
    Shape,
    is_event_stream,
    is_judged,
    shape_of,
)
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.streaming_response import StreamingResponse


def outcome_of_body(exchange: ExchangeState, head: ResponseHead, body: bytes, now: float) -> Outcome:
    """``SUCCESS`` or ``WITHOUT_RESULT``, for a response that came in one piece and is no error."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    if not is_judged(mark, pool.protocol, head.status, head.block):
        return _not_judged(attempt, now)
    return _outcome_of(exchange, attempt, shape_of(mark, head.block, body), now)


def watch(exchange: ExchangeState, head: ResponseHead, response: StreamingResponse, now: float) -> None:
    """Have a response that comes in pieces read along, if its call is judged."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    mark: bytes = exchange.head.route.result_mark  # type: ignore[attr-defined]
    if is_judged(mark, pool.protocol, head.status, head.block):
        response.watched = (
            EventStream(mark) if is_event_stream(head.block) else BodyInPieces(mark, head.block)
        )
    else:
        _not_judged(attempt, now)


def outcome_of_stream(
    exchange: ExchangeState, attempt: Attempt, watched: BodyInPieces | EventStream, now: float
) -> Outcome:
    """The same of a response that was read along, and has come to its end."""
    return _outcome_of(exchange, attempt, watched.shape(), now)


def _outcome_of(exchange: ExchangeState, attempt: Attempt, shape: Shape, now: float) -> Outcome:
    pool = exchange.pool
    assert pool is not None
    if shape is not Shape.NONE:
        pool.has_result(attempt, shape is Shape.WHOLE, now)
    elif pool.lacks_result(attempt.replica, now):
        return Outcome.WITHOUT_RESULT
    return Outcome.SUCCESS


def _not_judged(attempt: Attempt, now: float) -> Outcome:
    inspection.done(attempt.replica, now)
    return Outcome.SUCCESS
