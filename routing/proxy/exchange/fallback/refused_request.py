"""Refused request: an error response of a replica, in whose place another fleet is asked.

An error that says that the request is too long for the model
(:mod:`routing.protocols.context_length`) is known by its body. That mostly comes a moment after the head, so
it is awaited: for :data:`HELD_S` at most, and not beyond :data:`MOST_HELD_BYTES`. What is not known by then
is forwarded as any other response.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from routing.balancing.replica.state import Replica
from routing.contract.policy import FallbackCause
from routing.http.response_handler import Passthrough, ResponseHandler
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.protocols import context_length
from routing.protocols.openai_body import is_encoded
from routing.proxy.exchange import failed_attempt
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.fallback import takeover
from routing.proxy.exchange.retry_policy import LACKS_MODEL, outcome_of, retry_reason

HELD_S = 1.0
MOST_HELD_BYTES = 65_536


def falls_back(exchange: AttemptOwner, head: ResponseHead, body: bytes, complete: bool, now: float) -> bool:
    """Whether another fleet serves the request in place of this error response, or that is not known yet."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    cause: FallbackCause = "replicas_failed"
    if head.status in context_length.STATUSES:
        cause = "context_length_exceeded"
        if not takeover.is_for(exchange, cause) or is_encoded(head.block):
            return False
        if not complete and exchange.upstream is not None:
            hold(exchange, exchange.upstream, head, body)
            return True
        if not context_length.is_exceeded(head.status, body):
            return False
    elif retry_reason(exchange.head, head, pool.protocol, pool.policy.retries) in ("", LACKS_MODEL):
        return False
    tried: tuple[Replica, ...] = (*exchange.tried, attempt.replica)
    target = takeover.find(exchange, cause, now, tried)
    if target is None:
        return False
    if exchange.second is not None:
        exchange.second.give_up("lost", now)
    failed_attempt.drop(exchange, attempt, outcome_of(head), complete, now)
    takeover.go_to(exchange, target, cause, now, tried)
    return True


def hold(exchange: AttemptOwner, upstream: UpstreamConnection, head: ResponseHead, body: bytes) -> None:
    """Await the rest of an error response."""
    handler = upstream.handler
    assert handler is not None
    upstream.handler = held = HeldError(exchange, handler, upstream, head, body)
    asyncio.get_running_loop().call_later(HELD_S, held.release)


class HeldError:
    """Handles the rest of it (:class:`routing.http.response_handler.ResponseHandler`) in place of the
    exchange, which then gets it as if it had come as a whole."""

    __slots__ = ("_body", "_exchange", "_handler", "_head", "_upstream")

    def __init__(
        self,
        exchange: AttemptOwner,
        handler: ResponseHandler,
        upstream: UpstreamConnection,
        head: ResponseHead,
        body: bytes,
    ) -> None:
        """``handler``: the exchange, as the connection knows it."""
        self._exchange = exchange
        self._handler = handler
        self._upstream = upstream
        self._head = head
        self._body = body

    def release(self) -> None:
        """Await no more of it: from now on it is forwarded as it comes. Without effect if it has ended."""
        if self._upstream.handler is self:
            self._upstream.handler = self._handler
            self._exchange.begin_streaming(self._head, self._body, monotonic())

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        self._body += piece
        if complete:
            self._handler.response(self._head, self._body, True, now)
        elif len(self._body) > MOST_HELD_BYTES:
            self.release()

    def lost(self, reason: str, no_response_yet: bool) -> None:
        self._handler.lost(reason, no_response_yet)

    @property
    def asks_for_web_socket(self) -> bool:
        return False

    def informational(self, head: ResponseHead) -> None:
        raise AssertionError("the final head has come")

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        raise AssertionError("the final head has come")

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        raise AssertionError("the final head has come")

    def passthrough(self) -> Passthrough | None:
        return None

    def waiting_since(self) -> tuple[float, float, float] | None:
        return self._handler.waiting_since()

    def replica_lost(self, reason: str, *, in_any_case: bool) -> None:
        self._handler.replica_lost(reason, in_any_case=in_any_case)

    def taken_for_lost(self) -> None:
        self._handler.taken_for_lost()

    def replica_paused(self, paused: bool) -> None:
        self._handler.replica_paused(paused)
