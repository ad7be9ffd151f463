"""Seam: what happens when a stream breaks off: it is continued, brought to its end, or ends with an error.

Called by :mod:`routing.proxy.exchange.failed_attempt`. A stream that leaves its replica without need goes
another way (:mod:`routing.proxy.exchange.moving`).
"""

from __future__ import annotations

from time import monotonic

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.http.response_head import ResponseHead
from routing.protocols.continuation.next_request import call_of, next_request
from routing.protocols.continuation.refusal import NotContinuable
from routing.protocols.continuation.said import said_in
from routing.protocols.continuation.splice import closing_events
from routing.proxy.errors import LocalReply
from routing.proxy.exchange import needed_adapters, timeouts
from routing.proxy.exchange.continuation.continuable_response import ContinuableResponse
from routing.proxy.exchange.continuation.kept_stream import KeptStream
from routing.proxy.exchange.continuation.targets import prefill_of, unfit
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.retry_policy import MAX_EXTRA_ATTEMPTS, MAX_NEVER_SENT
from routing.proxy.exchange.state import ExchangeState

_ENCODED = b"\r\ncontent-encoding:"


def response_of(
    exchange: ExchangeState, head: ResponseHead, outcome: Outcome, keep: bool, body: bytes
) -> ContinuableResponse | None:
    """For a response that begins: its state, if it may be continued. ``body``: of the request, kept until
    now. ``None``: it is no stream of such a call."""
    call = call_of(exchange.head.target)
    if not call or not exchange.stream or exchange.pinned is not None or not _is_plain_stream(head):
        return None
    kept = KeptStream(body, exchange.proxy.bodies.kept)
    version = exchange.attempt.replica.spec.version  # type: ignore[union-attr]
    return ContinuableResponse(head, outcome, exchange.head.minor, keep, call, kept, exchange.tried, version)


def goes_on(
    exchange: AttemptOwner,
    response: ContinuableResponse,
    lost: Replica,
    never_sent: bool,
    failure: LocalReply,
) -> bool:
    """The attempt that was sending ``response``, or was to continue it, has failed and is settled. Whether
    the answer goes on, or was brought to its end. ``never_sent``: that attempt has reached no replica."""
    pool = exchange.pool
    assert pool is not None
    try:
        _go_on(exchange, response, pool, lost, never_sent, failure)
    except NotContinuable as refusal:
        response.give_up(refusal.cause, pool.counters)
        return False
    return True


def _go_on(
    exchange: AttemptOwner,
    response: ContinuableResponse,
    pool: Pool,
    lost: Replica,
    never_sent: bool,
    failure: LocalReply,
) -> None:
    """Raises :class:`NotContinuable`."""
    kept, now = response.kept, monotonic()
    if kept.cause:
        raise NotContinuable(kept.cause)
    if timeouts.no_time_left(exchange, now):
        raise NotContinuable("no_time")
    said = said_in(kept.text())
    asked = next_request(response.call, kept.body, said, prefill_of(pool))
    if not asked.body:
        kept.drop("")
        exchange.end_answer(closing_events(said, asked), now)
        return
    if never_sent:
        response.unreached += 1
    if exchange.extra_attempts >= MAX_EXTRA_ATTEMPTS or response.unreached > MAX_NEVER_SENT:
        raise NotContinuable("attempts")
    response.failed_at = (*response.failed_at, lost)
    others = unfit(pool, response.version, response.failed_at, response.call)
    if len(others) == len(pool.replicas):
        raise NotContinuable("no_replica")
    response.ask(said, asked)
    exchange.begin_again(pool, now, failure, others, asked.body)


def refusal_of(response: ContinuableResponse, head: ResponseHead, replica: Replica) -> LocalReply | None:
    """Why what a replica answers does not continue the stream; ``None``: it does."""
    if _is_plain_stream(head):
        return None
    if head.status < 500 and head.status not in (408, 429):
        # Another of the same kind would say the same.
        response.kept.drop("refused")
    words = f"replica {replica.name} responded {head.status} to the request for the rest of the stream"
    return LocalReply(502, "not_continued", words)


def _is_plain_stream(head: ResponseHead) -> bool:
    """Whether it is a successful event stream whose bytes are text."""
    return head.status == 200 and b"text/event-stream" in head.block and _ENCODED not in head.block.lower()


def can_leave(exchange: AttemptOwner, now: float) -> bool:
    """Whether another replica has room now to continue what this exchange's replica has begun. That one is
    taken to be lost."""
    response, pool, attempt = exchange.streaming_response, exchange.pool, exchange.attempt
    if not isinstance(response, ContinuableResponse) or pool is None or attempt is None:
        return False
    if response.kept.cause or exchange.extra_attempts >= MAX_EXTRA_ATTEMPTS or exchange.upstream is None:
        return False
    tried = (*response.failed_at, attempt.replica)
    others = unfit(pool, response.version, tried, response.call)
    if len(others) == len(pool.replicas) or timeouts.no_time_left(exchange, now):
        return False
    return pool.has_other_than(others, now, adapters=needed_adapters.limited(exchange, pool))
