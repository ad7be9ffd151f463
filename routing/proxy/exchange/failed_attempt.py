"""Failed attempt (retry policy applied): retried at another replica, or answered with a local reply.

What an exchange does when a replica has not served the request. A request that is served at once needs none
of it.
"""

from __future__ import annotations

from time import monotonic

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.http.response_head import ResponseHead
from routing.http.upstream_pool import ADDRESS_DENIED, NOT_VERIFIED, UNREACHABLE
from routing.proxy.errors import LocalReply
from routing.proxy.exchange import broken_stream, local_reply, needed_adapters, timeouts
from routing.proxy.exchange.request_fingerprint import fingerprint_of
from routing.proxy.exchange.retry_policy import (
    LACKS_MODEL,
    MAX_NEVER_SENT,
    MAX_RETRIES,
    is_second_server_error,
    outcome_of,
    replay_is_safe,
    retry_reason,
)
from routing.proxy.exchange.state import ExchangeState

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
    if not complete:
        # Reading the rest would make the client wait for a response that is not forwarded.
        attempt.first_byte(now)
        exchange.drop_upstream()
    exchange.take_attempt()
    outcome = Outcome.WITHOUT_MODEL if reason is LACKS_MODEL else outcome_of(head)
    attempt.settle(outcome, now, at_once=complete)
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
    if (
        not pool.is_suspect(attempt.replica)
        or not exchange.repeatable
        or exchange.pinned is not None
        or not _has_retries_left(exchange)
        or not replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
        or not _another_may_try(exchange, tried, now)
    ):
        return False
    exchange.take_attempt()
    attempt.settle(Outcome.WITHOUT_RESULT, now, at_once=True)
    words = f"replica {attempt.replica.name} responded with no answer, and no other replica can be tried"
    exchange.retry(pool, now, LocalReply(503, "without_result", words, 1.0), tried)
    return True


def fail_truncated(exchange: AttemptOwner) -> None:
    """A stream has ended well in HTTP before its answer did. As long as the client has got nothing of it,
    another replica may be asked."""
    pool, attempt = exchange.pool, exchange.attempt
    assert pool is not None
    assert attempt is not None
    repeat = (
        exchange.streaming_response is None
        and exchange.repeatable
        and exchange.pinned is None
        and replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
    )
    fail(exchange, Outcome.TRUNCATED, broken_stream.truncation(attempt.replica.name), repeat)


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
        exchange.streaming_response is None
        and exchange.repeatable
        and exchange.pinned is None
        and _has_retries_left(exchange)
        and replay_is_safe(exchange.head, pool.protocol, pool.policy.retries.replay_safe)
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
    else:
        local_reply.send_local_reply(exchange, failure)


def _has_retries_left(exchange: AttemptOwner, never_sent: bool = False) -> bool:
    """``never_sent``: after an attempt that reached no replica, which is counted already."""
    if never_sent:
        untried = len(exchange.pool.replicas) - len(exchange.tried) - 1  # type: ignore[union-attr]
        return exchange.never_sent <= MAX_NEVER_SENT and untried > 0
    return len(exchange.tried) - exchange.never_sent < MAX_RETRIES


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
