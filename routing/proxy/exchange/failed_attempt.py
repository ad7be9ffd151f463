"""Failed attempt (retry policy applied): retried at another replica, or answered with a local reply.

What an exchange does when a replica has not served the request. A request that is served at once needs none
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.policy import FallbackCause
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.http.upstream_pool import ADDRESS_DENIED, NOT_VERIFIED, UNREACHABLE
from routing.protocols.stream_start import StreamStart
from routing.proxy.errors import LocalReply
from routing.proxy.exchange import broken_stream, local_reply, needed_adapters, timeouts
from routing.proxy.exchange.fallen_back import FallbackTarget, FallenBack
from routing.proxy.exchange.request_fingerprint import fingerprint_of
from routing.proxy.exchange.retry_policy import (
    LACKS_MODEL,
    MAX_EXTRA_ATTEMPTS,
    MAX_NEVER_SENT,
    is_answer,
    is_second_server_error,
    outcome_of,
    replay_is_safe,
    retry_reason,
)
from routing.proxy.exchange.state import ExchangeState, SecondInFlight

CONNECT_TIMEOUT = "connect_timeout"
_UNCONNECTED = frozenset({UNREACHABLE, NOT_VERIFIED, ADDRESS_DENIED, CONNECT_TIMEOUT})
_UNREACHED_AGAIN_S = 1.0
"""``Retry-After`` where no replica was reached."""


class AttemptOwner(ExchangeState):
    """What is asked of an exchange here. :mod:`routing.proxy.exchange.upstream_exchange`, which lies above
    this module, implements it."""

    __slots__ = ()

    def account_passthrough(self, now: float) -> None:
        """Count the chunks that were forwarded uncounted."""
        raise NotImplementedError

    def take_attempt(self) -> Attempt:
        """The attempt, which the caller settles. Its connection is no longer this exchange's."""
        raise NotImplementedError

    def count_never_sent(self) -> None:
        """Another attempt has sent nothing."""
        raise NotImplementedError

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        """The attempt's replica has responded."""
        raise NotImplementedError

    def progress(self, now: float) -> None:
        """More of a response has come that is held."""
        raise NotImplementedError

    def connected(self, upstream: UpstreamConnection) -> None:
        """As of :class:`routing.http.upstream_pool.ConnectListener`, and so the next two."""
        raise NotImplementedError

    def connect_failed(self, reason: str, code: str) -> None:
        raise NotImplementedError

    def connect_prevented(self, reason: str, code: str) -> None:
        raise NotImplementedError

    def second_begins(self, second: SecondInFlight, reason: str) -> None:
        """The request is sent to another replica as well. ``reason``: a code, for the client."""
        raise NotImplementedError

    def second_ends(self, result: str, attempt: Attempt | None) -> None:
        """``attempt``: it will be the request's."""
        raise NotImplementedError

    def not_again(self, replica: Replica, never_sent: bool) -> None:
        """That replica is not tried again. ``never_sent``: it was not reached, and that is to be counted."""
        raise NotImplementedError

    def first_is_beaten(self, now: float) -> None:
        """Another replica has answered before the attempt's."""
        raise NotImplementedError

    def goes_on_with(
        self,
        attempt: Attempt,
        upstream: UpstreamConnection | None,
        cancel_connecting: Callable[[], bool] | None,
        progressed_at: float,
    ) -> None:
        """There is no attempt any more: this one is the request's from now on."""
        raise NotImplementedError

    def goes_on(self, lost: Replica, never_sent: bool, failure: LocalReply) -> bool:
        """Whether the response that has begun goes on at another replica than the one that was lost.
        ``never_sent``: the failed attempt was to continue it, and has reached no replica."""
        raise NotImplementedError

    def end_answer(self, events: bytes, now: float) -> None:
        """The response that has begun lacks only these events of its end."""
        raise NotImplementedError

    def begin_again(
        self, pool: Pool, now: float, failure: LocalReply, tried: tuple[Replica, ...], body: bytes
    ) -> None:
        """Start another attempt, with this body, for the rest of the response that has begun."""
        raise NotImplementedError

    def drop_upstream(self) -> None:
        """Close the connection, or stop opening one."""
        raise NotImplementedError

    def drop_attempt(self, outcome: Outcome) -> None:
        """Cancel the attempt, or the wait for one."""
        raise NotImplementedError

    def begin_streaming(
        self, head: ResponseHead, body: bytes, now: float, start: StreamStart | None = None
    ) -> None:
        """Forward this response, whose body is not complete, whatever it says. ``start``: reads a stream that
        has no content yet; ``None``: it has, or it is no such stream."""
        raise NotImplementedError

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        """More of the response has come."""
        raise NotImplementedError

    def upstream_is_done(self) -> None:
        """The connection has brought the response to its end, and is not this exchange's any more."""
        raise NotImplementedError

    def change_fleet(
        self, target: FallbackTarget, fallen: FallenBack, tried: tuple[Replica, ...], now: float
    ) -> None:
        """The request goes to another fleet: count it there, and start an attempt. There is none under way.
        ``tried``: as of ``tried`` from now on."""
        raise NotImplementedError

    def retry(
        self,
        pool: Pool,
        now: float,
        failure: LocalReply,
        tried: tuple[Replica, ...],
        fresh: bool = False,
        dropped_by: Replica | None = None,
    ) -> None:
        """Start another attempt, at none of those that were ``tried``. ``failure``: the reply after the one
        before. ``fresh``: use a new connection. ``dropped_by``: a replica to try again only if no other has a
        slot."""
        raise NotImplementedError


def unreached(exchange: AttemptOwner, code: str, words: str) -> LocalReply:
    """The reply where no connection was made. 503 says that nothing was done, so that the client may send
    the request again. 502 says that another replica may have begun it, or that this one was reached and
    is not to be trusted."""
    if code == NOT_VERIFIED or not exchange.repeatable:
        return LocalReply(502, code, words)
    return LocalReply(503, code, words, _UNREACHED_AGAIN_S)


def fail_connecting(exchange: AttemptOwner, exceeded: timeouts.ExceededTimeout) -> None:
    """No connection was made in time."""
    code, words = CONNECT_TIMEOUT, exceeded.message
    failure = LocalReply(504, code, words) if exceeded.final else unreached(exchange, code, words)
    fail(exchange, Outcome.REFUSED, failure, repeat=not exceeded.final)


def retries_response(exchange: AttemptOwner, head: ResponseHead, complete: bool, now: float) -> bool:
    """Whether another attempt was started in place of forwarding this response."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    already = exchange.tried
    if head.status >= 500 or head.status == 404:
        attempt.source = fingerprint_of(exchange)
    if head.status >= 500 or head.status == 429:
        pool.refused(attempt.replica, head.status, head.retry_after_s, now)
    if exchange.second is not None:
        if is_answer(head.status, pool.policy.retries):
            return False
        drop(exchange, attempt, outcome_of(head), complete, now)
        _goes_to_second(exchange, attempt.replica, now)
        return True
    if not exchange.repeatable or exchange.pinned is not None or not _has_retries_left(exchange):
        return False
    reason = retry_reason(exchange.head, head, pool.protocol, pool.policy.retries)
    if not reason or (reason is LACKS_MODEL and len(already) > exchange.never_sent):
        return False
    tried = (*already, attempt.replica)
    if reason is not LACKS_MODEL and (
        is_second_server_error(reason, exchange.retry_fields) or pool.most_refuse(tried, now)
    ):
        return False
    if not _another_may_try(exchange, tried, now):
        return False
    drop(
        exchange, attempt, Outcome.WITHOUT_MODEL if reason is LACKS_MODEL else outcome_of(head), complete, now
    )
    words = f"replica {attempt.replica.name} responded {head.status}, and no other replica can be tried"
    exchange.retry(pool, now, LocalReply(503, reason, words, 1.0), tried)
    return True


def retries_without_result(exchange: AttemptOwner, now: float) -> bool:
    """Whether another attempt was started in place of forwarding a whole response with 200 that is no answer.
    Only where the replica has given several while the others answered: one may be what was asked for."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    tried = (*exchange.tried, attempt.replica)
    if exchange.second is not None:
        drop(exchange, attempt, Outcome.WITHOUT_RESULT, True, now)
        _goes_to_second(exchange, attempt.replica, now)
        return True
    if (
        not pool.is_suspect(attempt.replica)
        or not exchange.repeatable
        or exchange.pinned is not None
        or not _has_retries_left(exchange)
        or not replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
        or not _another_may_try(exchange, tried, now)
    ):
        return False
    drop(exchange, attempt, Outcome.WITHOUT_RESULT, True, now)
    words = f"replica {attempt.replica.name} responded with no answer, and no other replica can be tried"
    exchange.retry(pool, now, LocalReply(503, "without_result", words, 1.0), tried)
    return True


def fail_truncated(exchange: AttemptOwner) -> None:
    """A stream has ended well in HTTP before its answer did. As long as the client has got nothing of it,
    another replica may be asked."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    failure = broken_stream.truncation(attempt.replica.name)
    fail(exchange, Outcome.TRUNCATED, failure, repeat=may_ask_another(exchange, pool))


def fail_malformed(exchange: AttemptOwner) -> None:
    """A stream has begun with what is no event of any protocol. The client has got nothing of it."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    failure = broken_stream.malformation(attempt.replica.name)
    fail(exchange, Outcome.LOST, failure, repeat=may_ask_another(exchange, pool))


def fail_with_event(exchange: AttemptOwner) -> None:
    """A stream has begun with an error of its server. The client has got nothing of it."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    failure = broken_stream.failure_in_stream(attempt.replica.name)
    fail(exchange, Outcome.FAILED, failure, repeat=may_ask_another(exchange, pool))


def retries_failure_alone(exchange: AttemptOwner, head: ResponseHead, body: bytes) -> bool:
    """The same of a stream that came in one piece. False: it is none, or must not be sent twice."""
    pool = exchange.pool
    assert pool is not None
    if not may_ask_another(exchange, pool) or not broken_stream.is_failure_alone(exchange, head, body):
        return False
    fail_with_event(exchange)
    return True


def fail_in_time(exchange: AttemptOwner, exceeded: timeouts.ExceededTimeout) -> None:
    """A time limit has passed after the request was sent."""
    pool = exchange.pool
    assert pool is not None
    repeat = not exceeded.final and may_ask_another(exchange, pool)
    fail(exchange, Outcome.TIMEOUT, LocalReply(504, "timeout", exceeded.message), repeat)


def may_ask_another(exchange: AttemptOwner, pool: Pool) -> bool:
    """Whether the retry rules allow to repeat a request elsewhere whose replica was sent it, and whose client
    has got nothing."""
    return (
        exchange.nothing_sent
        and exchange.repeatable
        and exchange.pinned is None
        and replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
    )


def may_repeat_lost(exchange: AttemptOwner, no_response_yet: bool) -> bool:
    """Whether the retry rules allow to repeat a request whose connection was lost."""
    pool = exchange.pool
    assert pool is not None
    return (
        exchange.streaming_response is None
        and exchange.repeatable
        and replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
        # What is no response comes from a broken replica: that one is not tried again.
        and (no_response_yet or _has_another(exchange, pool))
    )


def may_go_elsewhere(exchange: AttemptOwner) -> bool:
    """Whether the retry rules allow to take the request from its replica, and another has a slot."""
    pool = exchange.pool
    assert pool is not None
    return (
        may_ask_another(exchange, pool)
        and _has_retries_left(exchange)
        and not timeouts.no_time_left(exchange, monotonic())
        and pool.budget.has_left
        and _has_another(exchange, pool)
    )


def fail(
    exchange: AttemptOwner, outcome: Outcome, failure: LocalReply, repeat: bool, stale: bool = False
) -> None:
    """The attempt has failed. ``repeat``: the retry rules allow another. ``stale``: it used an idle
    connection, which the replica may have been closing."""
    pool = exchange.pool
    assert pool is not None
    now = monotonic()
    exchange.account_passthrough(now)
    attempt = exchange.take_attempt()
    never_sent = outcome is Outcome.REFUSED or outcome is Outcome.PREVENTED
    if never_sent:
        exchange.count_never_sent()
    else:
        attempt.source = fingerprint_of(exchange)
    if outcome is Outcome.REFUSED:
        attempt.replica.security.not_verified = failure.message if failure.code == NOT_VERIFIED else ""
    attempt.settle(outcome, now)
    if failure.code in _UNCONNECTED:
        exchange.proxy.connect_checks.refused(pool, attempt.replica)
    elif outcome is Outcome.LOST:
        exchange.proxy.connect_checks.lost(pool, attempt.replica)
    if _goes_to_second(exchange, attempt.replica, now):
        return
    if exchange.streaming_response is not None:
        if not exchange.goes_on(attempt.replica, never_sent, failure):
            local_reply.break_off(exchange, failure)
    elif timeouts.client_gave_up(exchange, now):
        local_reply.reply_client_timeout(exchange)
    elif (
        repeat
        # A pinned request has no other replica: it is repeated only after a stale connection.
        and (_has_retries_left(exchange, never_sent) if exchange.pinned is None else stale)
        and not timeouts.no_time_left(exchange, now)
        and pool.retry_allowed(never_sent)
    ):
        tried, dropped_by = exchange.tried, None
        if exchange.pinned is None:
            # That an idle connection was closed says nothing about the replica: it may be tried on a new
            # one. But it may just have been killed, so other replicas are preferred.
            if stale:
                dropped_by = attempt.replica
            else:
                tried = (*tried, attempt.replica)
        # After a lost connection the retry does not use another idle one.
        exchange.retry(pool, now, failure, tried, fresh=not exchange.repeatable, dropped_by=dropped_by)
    elif not exchange.falls_back(_cause_of(outcome), now, (*exchange.tried, attempt.replica)):
        local_reply.send_local_reply(exchange, failure)


def _cause_of(outcome: Outcome) -> FallbackCause:
    """What a request falls back for whose attempt has failed so. A time limit after which it is not sent to
    another replica is mostly that for the first byte of a stream."""
    return "first_token" if outcome is Outcome.TIMEOUT else "replicas_failed"


def drop(exchange: AttemptOwner, attempt: Attempt, outcome: Outcome, complete: bool, now: float) -> None:
    """Do not forward the response that has come."""
    if not complete:
        # Reading the rest would make the client wait for a response that is not forwarded.
        attempt.first_byte(now)
        exchange.drop_upstream()
    exchange.take_attempt()
    attempt.settle(outcome, now, at_once=complete)


def _goes_to_second(exchange: AttemptOwner, failed: Replica, now: float) -> bool:
    """The attempt has failed, and is settled. Whether the second one is the request's from now on."""
    second = exchange.second
    if second is None:
        return False
    if timeouts.no_time_left(exchange, now):
        second.give_up("cancelled", now)
        return False
    exchange.not_again(failed, False)
    second.take_over(now)
    return True


def _has_retries_left(exchange: AttemptOwner, never_sent: bool = False) -> bool:
    """``never_sent``: after an attempt that reached no replica, which is counted already."""
    if never_sent:
        before = exchange.fallen_back
        tried = len(exchange.tried) - (0 if before is None else before.tried)
        untried = len(exchange.pool.replicas) - tried - 1  # type: ignore[union-attr]
        return exchange.never_sent <= MAX_NEVER_SENT and untried > 0
    return exchange.extra_attempts < MAX_EXTRA_ATTEMPTS


def _another_may_try(exchange: AttemptOwner, tried: tuple[Replica, ...], now: float) -> bool:
    """Whether there are time, another replica and the budget for it. Takes one retry out of that."""
    pool = exchange.pool
    assert pool is not None
    if timeouts.no_time_left(exchange, now) or not pool.has_other_than(
        tried, now, adapters=needed_adapters.limited(exchange, pool)
    ):
        return False
    return pool.retry_allowed()


def _has_another(exchange: AttemptOwner, pool: Pool) -> bool:
    """Whether a replica that has not had the request could take it now."""
    assert exchange.attempt is not None
    tried = (*exchange.tried, exchange.attempt.replica)
    return pool.has_other_than(tried, monotonic(), adapters=needed_adapters.limited(exchange, pool))
