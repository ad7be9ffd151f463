"""Second attempt (hedged request): a request whose replica has sent nothing is sent to another one as well.

Theory. A replica may hang though its probes pass. Nobody knows that of one request before a time limit has
passed, and then the client has waited for all of it. So a request that is late, and that may be sent twice,
goes to a second replica; whichever has content first is the answer, and the other is cancelled. When one is
late, and when the fleet can afford it, is said by :mod:`routing.balancing.pool.second_attempts`.

While both are under way the exchange has the first attempt, as it has without a second, and this module's
object has the second one. It keeps what comes, head and all, until there is content: comments, and events
that only name a role, are none. Then it hands itself and what it has kept over to the exchange, as if that
had just come. It ends in one of these ways:

- *won*: it had content first. The first attempt is cancelled, and counts as beaten.
- *won* too, where the first one has failed meanwhile. It takes the place of a retry.
- *lost*: the first one had content first.
- *failed*: no connection, a lost one, or an error that is the replica's. The first one goes on waiting, and
  the request may be sent to a third.
- *cancelled*: the request has ended without an answer; its client has left, say.

Time is looked at where other time limits are, ten times a second. Only a request that is nearly late gets a
timer of its own.

Source: Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import MONITORED, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import ANY_SLOT, Pool
from routing.balancing.replica.state import Replica
from routing.http.response_handler import Passthrough
from routing.http.response_head import ResponseHead
from routing.http.timeout_sweeper import PERIOD_S
from routing.http.upstream_connection import UpstreamConnection
from routing.http.upstream_pool import NOT_VERIFIED
from routing.protocols.answer_shape import is_event_stream
from routing.protocols.stream_end import follows
from routing.protocols.stream_start import Start, StreamStart
from routing.proxy.exchange import affinity_key, broken_stream, needed_adapters, timeouts
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.request_fingerprint import fingerprint_of
from routing.proxy.exchange.retry_policy import (
    MAX_EXTRA_ATTEMPTS,
    is_answer,
    outcome_of,
    replay_is_safe,
)
from routing.proxy.exchange.upstream_request import send_request

FIRST_TOKEN, PLAIN = "first_token_limit", "plain_limit"
"""Why there is one, as ``x-switchyard-retry-reason`` says it."""
MOST_KEPT_BYTES = 65_536
"""What is longer counts as content."""
SOON_S = 1.5 * PERIOD_S
"""A request that is late so soon gets a timer."""


# --- when ------------------------------------------------------------------------------------------------


def look(exchange: AttemptOwner, now: float) -> None:
    """Time has passed for a request of which the client has got nothing yet, in a fleet with such attempts:
    send it to a second replica if it is late."""
    if exchange.second is not None:
        exchange.second.check(now)
        _look_at_both(exchange, now)
        return
    pool, attempt, held = exchange.pool, exchange.attempt, exchange.held
    if pool is None or attempt is None or exchange.upstream is None or not _may_be_sent_twice(exchange, pool):
        return
    if held is not None and held.start is None:
        return  # an answer that is no stream comes, in pieces
    left_s = attempt.started + _limit_s(exchange, pool, attempt) - now
    if left_s > SOON_S:
        return
    if left_s <= 0.0:
        _begin(exchange, pool, attempt, now)
    elif getattr(exchange, "second_timer", None) is None:
        loop = asyncio.get_running_loop()
        exchange.second_timer = loop.call_later(left_s, _time_has_come, exchange, attempt)


def _look_at_both(exchange: AttemptOwner, now: float) -> None:
    """If the second attempt is late as well, another fleet may take over."""
    pool, first, second = exchange.pool, exchange.attempt, exchange.second
    if pool is None or first is None or second is None or not exchange.stream:
        return
    if now >= second.attempt.started + pool.seconds.stream_limit_s(second.attempt.own_work):
        _falls_back(exchange, now, (*exchange.tried, first.replica, second.attempt.replica))


def _falls_back(exchange: AttemptOwner, now: float, tried: tuple[Replica, ...]) -> bool:
    """Whether another fleet serves a stream of which nothing has come from any replica that could be asked.
    Asked once."""
    if getattr(exchange, "second_silent", False):
        return False
    exchange.second_silent = True
    return exchange.stream and exchange.falls_back("first_token", now, tried)


def _time_has_come(exchange: AttemptOwner, attempt: Attempt) -> None:
    exchange.second_timer = None
    if exchange.attempt is attempt and exchange.streaming_response is None:
        look(exchange, monotonic())


def _may_be_sent_twice(exchange: AttemptOwner, pool: Pool) -> bool:
    """Whether the policy and the request allow it: inference that keeps no state, whose body is kept."""
    seconds = pool.seconds
    return (
        (seconds.of_streams if exchange.stream else seconds.of_plain)
        and exchange.repeatable
        and exchange.pinned is None
        and exchange.upload is None
        and exchange.head.method == b"POST"
        and pool.policy.retries.replay_safe != "never"
        and replay_is_safe(exchange.head, pool.protocol, "auto")
    )


def _limit_s(exchange: AttemptOwner, pool: Pool, attempt: Attempt) -> float:
    """After how many seconds the request is late."""
    if exchange.stream:
        return pool.seconds.stream_limit_s(attempt.own_work)
    return pool.seconds.plain_limit_s(attempt.replica, attempt.own_work, exchange.estimated_work > 0.0)


def _begin(exchange: AttemptOwner, pool: Pool, first: Attempt, now: float) -> None:
    """The request is late."""
    if timeouts.no_time_left(exchange, now):
        return
    tried, adapters = (*exchange.tried, first.replica), needed_adapters.limited(exchange, pool)
    if not pool.has_other_than(tried, now, ANY_SLOT, adapters) and _falls_back(exchange, now, tried):
        return
    if exchange.extra_attempts >= MAX_EXTRA_ATTEMPTS:
        _note(exchange, pool, "attempts")
        return
    objection = pool.second_objection(first.replica, now)
    if objection:
        _note(exchange, pool, objection)
        return
    found = _pick(exchange, pool, tried, now)
    if isinstance(found, Rejection):
        _note(exchange, pool, "no_replica")
        return
    pool.seconds.take()
    second = SecondAttempt(exchange, pool, found, now)
    exchange.second_begins(second, FIRST_TOKEN if exchange.stream else PLAIN)
    second.start()


def _note(exchange: AttemptOwner, pool: Pool, cause: str) -> None:
    """It cannot be sent to another now. Each request is counted once; it may be sent later."""
    if not getattr(exchange, "second_noted", False):
        exchange.second_noted = True
        causes = pool.counters.not_sent_twice
        causes[cause] = causes.get(cause, 0) + 1


def _pick(exchange: AttemptOwner, pool: Pool, tried: tuple[Replica, ...], now: float) -> Attempt | Rejection:
    """An attempt at another replica, which has a slot now."""
    key, due = affinity_key.of(exchange, pool), timeouts.due(exchange, pool)
    work, stated = exchange.work, exchange.own_work is not None
    if adapters := needed_adapters.named(exchange, pool):
        found = pool.begin_for_adapters(adapters, work, now, tried, ANY_SLOT, key=key, due=due, stated=stated)
    else:
        found = pool.begin(work, now, tried, ANY_SLOT, key=key, due=due, stated=stated)
    if isinstance(found, Rejection):
        return found
    if exchange.own_work is not None:
        found = pool.by_stated_work(found, exchange.own_work)
    if found.mode == MONITORED:
        found.source = fingerprint_of(exchange)
    if 0 < exchange.head.time_limit_s <= pool.policy.timeouts.stall_s:
        found.mark_short_deadline()
    return found


# --- the attempt -----------------------------------------------------------------------------------------


class SecondAttempt:
    """Implements what connections to replicas and pools of them call for a request, until it has become the
    exchange's, or has ended."""

    __slots__ = (
        "_cancel_connecting",
        "_exchange",
        "_head",
        "_is_exchanges",
        "_kept",
        "_pool",
        "_progressed_at",
        "_start",
        "_upstream",
        "attempt",
    )

    def __init__(self, exchange: AttemptOwner, pool: Pool, attempt: Attempt, now: float) -> None:
        self._exchange = exchange
        self._pool = pool
        self.attempt = attempt
        self._upstream: UpstreamConnection | None = None
        self._cancel_connecting: Callable[[], bool] | None = None
        self._progressed_at = now
        self._head: ResponseHead | None = None
        self._start: StreamStart | None = None
        """Reads its stream until there is content."""
        self._kept = b""
        """Of the response's body."""
        self._is_exchanges = False
        """Whether the attempt is the exchange's by now."""

    def start(self, fresh: bool = False) -> None:
        """Send the request. ``fresh``: on a new connection."""
        endpoint = self._exchange.proxy.endpoint(self.attempt.replica)
        upstream = None if fresh else endpoint.pool.acquire()
        if upstream is None:
            self._cancel_connecting = endpoint.pool.connect(self)
        else:
            self._send(upstream)

    def _send(self, upstream: UpstreamConnection) -> None:
        self._upstream = upstream
        if self._exchange.record is not None:
            self._exchange.record.sends(self.attempt)
        send_request(self._exchange, self, self._exchange.proxy.endpoint(self.attempt.replica), upstream)

    # Its ends.

    def check(self, now: float) -> None:
        """Time passes. From its connection on, the time limits are those of the first attempt."""
        limit_s = self._pool.policy.timeouts.connect_s
        if self._cancel_connecting is not None and now - self._progressed_at > limit_s:
            self._fail(Outcome.REFUSED, now)

    def take_over(self, now: float) -> None:
        self._end("won", self.attempt)
        self._become_exchanges(now, False)

    def give_up(self, result: str, now: float) -> None:
        self._close()
        self._end(result)
        self.attempt.settle(Outcome.CANCELLED, now)

    def _win(self, now: float, complete: bool) -> None:
        """It has answered first."""
        self._end("won", self.attempt)
        self._exchange.first_is_beaten(now)
        self._become_exchanges(now, complete)

    def _become_exchanges(self, now: float, complete: bool) -> None:
        exchange, upstream, head = self._exchange, self._upstream, self._head
        self._is_exchanges = True
        exchange.goes_on_with(self.attempt, upstream, self._cancel_connecting, self._progressed_at)
        if head is not None:
            exchange.response(head, self._kept, complete, now)

    def _fail(self, outcome: Outcome, now: float, at_once: bool = False) -> None:
        self._close()
        never_sent = outcome in (Outcome.REFUSED, Outcome.PREVENTED)
        self._end("failed")
        self._exchange.not_again(self.attempt.replica, never_sent)
        if never_sent:
            self._pool.seconds.give_back()
        else:
            self.attempt.source = fingerprint_of(self._exchange)
        self.attempt.settle(outcome, now, at_once=at_once)
        if outcome is Outcome.REFUSED:
            self._exchange.proxy.connect_checks.refused(self._pool, self.attempt.replica)
        elif outcome is Outcome.LOST:
            self._exchange.proxy.connect_checks.lost(self._pool, self.attempt.replica)

    def _end(self, result: str, attempt: Attempt | None = None) -> None:
        """``attempt``: it is the exchange's from now on."""
        results = self._pool.counters.second_attempts
        results[result] = results.get(result, 0) + 1
        self._exchange.second_ends(result, attempt)

    def _close(self) -> None:
        if self._cancel_connecting is not None:
            self._cancel_connecting()
            self._cancel_connecting = None
        if self._upstream is not None:
            self._upstream.discard()
            self._upstream = None

    # Called by the pool of connections.

    def connected(self, upstream: UpstreamConnection) -> None:
        if self._is_exchanges:
            self._exchange.connected(upstream)
            return
        self._cancel_connecting = None
        self._progressed_at = now = monotonic()
        self.attempt.connection_opened(now)
        self._send(upstream)

    def connect_failed(self, reason: str, code: str) -> None:
        if self._is_exchanges:
            self._exchange.connect_failed(reason, code)
            return
        self._cancel_connecting = None
        self.attempt.replica.security.not_verified = reason if code == NOT_VERIFIED else ""
        self._fail(Outcome.REFUSED, monotonic())

    def connect_prevented(self, reason: str, code: str) -> None:
        if self._is_exchanges:
            self._exchange.connect_prevented(reason, code)
            return
        self._cancel_connecting = None
        self._fail(Outcome.PREVENTED, monotonic())

    # Called by the connection.

    @property
    def asks_for_web_socket(self) -> bool:
        return False

    def informational(self, head: ResponseHead) -> None:
        """Not forwarded: the final response may not be either."""

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        raise AssertionError("no request for a tunnel is sent twice")

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        if complete:
            self._upstream = None
        if not is_answer(head.status, self._pool.policy.retries):
            if head.status >= 500 or head.status == 429:
                self._pool.refused(self.attempt.replica, head.status, head.retry_after_s, now)
            if not complete:
                self.attempt.first_byte(now)
            self._fail(outcome_of(head), now, at_once=complete)
            return
        self._head = head
        mark: bytes = self._exchange.head.route.result_mark  # type: ignore[attr-defined]
        if is_event_stream(head.block) and follows(mark):
            self._start = StreamStart(mark)
        self._progressed_at = now
        self._keep(body, complete, now)

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        if complete:
            self._upstream = None
        self._progressed_at = now
        self._keep(piece, complete, now)

    def _keep(self, piece: bytes, complete: bool, now: float) -> None:
        """More of the body has come. It has answered if there is content, or if it is no stream."""
        head = self._head
        assert head is not None
        self._kept += piece
        found = Start.CONTENT if self._start is None else self._start.feed(piece)
        if found is Start.MALFORMED:
            self._fail(Outcome.LOST, now)
        elif found is Start.FAILED:
            self._fail(Outcome.FAILED, now)
        elif complete and broken_stream.is_truncated_whole(self._exchange, head, self._kept):
            self._fail(Outcome.TRUNCATED, now)
        elif complete or found is Start.CONTENT or len(self._kept) > MOST_KEPT_BYTES:
            self._win(now, complete)

    def passthrough(self) -> Passthrough | None:
        return None

    def lost(self, reason: str, no_response_yet: bool) -> None:
        upstream = self._upstream
        assert upstream is not None
        self._upstream = None
        if no_response_yet and upstream.reused:
            # The replica may have been closing an idle connection: that says nothing of it.
            self.start(fresh=True)
        else:
            self._fail(Outcome.LOST, monotonic())

    def waiting_since(self) -> tuple[float, float, float] | None:
        return self.attempt.started, self._progressed_at, self.attempt.own_work

    def replica_lost(self, reason: str, *, in_any_case: bool) -> None:
        if self._upstream is not None:
            self._upstream.give_up(reason)

    def taken_for_lost(self) -> None:
        self.attempt.write_off()

    def replica_paused(self, paused: bool) -> None:
        """It takes the request slowly; all of it is here."""
