"""Queued request: an exchange that waits, because no replica has a free slot or none is ready yet.

It is in its fleet's queue from :func:`enqueue` on, until it gets a slot, is refused, or its client
disconnects. Meanwhile it has no attempt, so it counts at no replica.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic

from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.pool.adapter_replicas import in_words
from routing.balancing.pool.pool import ANY_SLOT, DEQUEUED, NEW, Pool
from routing.balancing.replica.client_source import client_number
from routing.balancing.replica.state import Replica
from routing.contract.priority import PRIORITIES
from routing.contract.trusted_proxies import client_group
from routing.proxy.errors import LocalReply
from routing.proxy.exchange import affinity_key, local_reply, needed_adapters, timeouts
from routing.proxy.exchange.continuation.continuable_response import ContinuableResponse
from routing.proxy.exchange.continuation.targets import unfit
from routing.proxy.exchange.state import ExchangeState

_FIELD = b"\r\nx-switchyard-priority:"

COLD = "fleet_cold"
SAY_WHY = (COLD, "memory_short")
"""Something other than a slot is missing: a request that times out gets this as the reason."""

_NO_SLOT = Rejection("queue_timeout", "", None, inf)

OnAdmitted = Callable[[Attempt, float], None]
"""Called with the attempt that was found, and the time."""


class QueuedRequest:
    """One exchange in a queue (:class:`routing.balancing.admission.ticket.Waiter`)."""

    __slots__ = ("_dropped_by", "_exchange", "_failure", "_key", "_pool", "_refusal", "_start", "ticket")

    def __init__(
        self,
        exchange: ExchangeState,
        pool: Pool,
        refusal: Rejection,
        failure: LocalReply | None,
        dropped_by: Replica | None,
        start: OnAdmitted,
    ) -> None:
        """``failure``: the reply after the attempt before, which says more to the client. ``dropped_by``: see
        :func:`excluded`."""
        self._exchange = exchange
        self._pool = pool
        self._refusal = refusal
        self._failure = failure
        self._dropped_by = dropped_by
        self._start = start
        self._key = affinity_key.of(exchange, pool)
        self.ticket: Ticket

    def admit(self, now: float, patient: bool) -> bool:
        exchange, pool = self._exchange, self._pool
        turn = DEQUEUED if patient else ANY_SLOT
        since, due = self.ticket.since, timeouts.due(exchange, pool)
        work, pinned, tried = exchange.work, exchange.pinned, exchange.tried
        key, stated = self._key, exchange.own_work is not None
        response = exchange.streaming_response
        if isinstance(response, ContinuableResponse):
            # Replicas may have come, and trials may have failed, since it began to wait.
            tried = unfit(pool, response.version, response.failed_at, response.call)
        adapters = needed_adapters.named(exchange, pool)
        if self._dropped_by is not None:
            tried = excluded(exchange, pool, self._dropped_by, now, DEQUEUED)

        def begin() -> Attempt | Rejection:
            if pinned is not None:
                return pool.begin_pinned(pinned, work, now, turn, since, stated)
            if adapters:
                return pool.begin_for_adapters(adapters, work, now, tried, turn, since, key, due, stated)
            return pool.begin(work, now, tried, turn, since, key, due, stated)

        found = pool.admission.look(self.ticket, begin)
        if isinstance(found, Rejection):
            if found.max_wait_s:
                self._refusal = found
                if found.code == "memory_short":
                    pool.admission.keep_memory(self.ticket, now)
                return False
            self._leave()
            local_reply.reply_no_replica(exchange, found, self._failure)
            return True
        exchange.stop_waiting()
        pool.admission.found(self.ticket, now)
        self._start(found, now)
        return True

    def timed_out(self, now: float) -> None:
        exchange, refusal = self._exchange, self._still_refused(now)
        exchange.stop_waiting()
        if timeouts.client_gave_up(exchange, now):
            local_reply.reply_client_timeout(exchange)
            return
        waited = f"{now - self.ticket.since:.1f} s"
        if refusal.code in SAY_WHY or not refusal.max_wait_s:
            words = f"timed out after {waited} in the queue: {refusal.message}"
            self._answer(refusal.code, words, refusal.retry_after_s or 0.0)
        else:
            adapters = needed_adapters.limited(exchange, self._pool)
            fleet = self._pool.name
            of_fleet = f"{fleet} that serves {in_words(adapters)}" if adapters else fleet
            words = f"no replica of fleet {of_fleet} had a free slot for the request within {waited}"
            self._answer("queue_timeout", words, self._pool.admission.retry_after())

    def _still_refused(self, now: float) -> Rejection:
        """Why it waits until now. A cold start that it began to wait for may be over: its first replica may
        be ready, with its slots taken by others, or gone."""
        if self._refusal.code == COLD:
            self._refusal = self._pool.rejection(now) or _NO_SLOT
        return self._refusal

    def preempted(self, now: float) -> None:
        self._exchange.stop_waiting()
        words = (
            f"the queue of fleet {self._pool.name} is full, and a request of higher priority, or of a client "
            "with less in it, took its place"
        )
        self._answer("queue_full", words, self._pool.admission.retry_after())

    def leave(self) -> None:
        """The client does not wait any longer."""
        self._leave()

    def _leave(self) -> None:
        self._exchange.stop_waiting()
        self._pool.admission.leave(self.ticket)

    def _answer(self, code: str, words: str, retry_after_s: float) -> None:
        exchange, cause = self._exchange, local_reply.cause_of(self._refusal, self._failure)
        if exchange.falls_back(cause, monotonic(), exchange.tried):
            return
        local_reply.send_local_reply(exchange, self._failure or LocalReply(503, code, words, retry_after_s))


def excluded(
    exchange: ExchangeState, pool: Pool, dropped_by: Replica, now: float, turn: int = NEW
) -> tuple[Replica, ...]:
    """The replicas to exclude for a request whose idle connection the replica ``dropped_by`` closed: that one
    as well, if another has a slot."""
    tried = exchange.tried
    others = (*tried, dropped_by)
    adapters = needed_adapters.limited(exchange, pool)
    return others if pool.has_other_than(others, now, turn, adapters) else tried


def enqueue(
    exchange: ExchangeState,
    pool: Pool,
    refusal: Rejection,
    failure: LocalReply | None,
    dropped_by: Replica | None,
    start: OnAdmitted,
    now: float,
) -> None:
    """Queue the request, if waiting helps and the client still waits. Else reply; also if the queue is full,
    or the request would be served too late. Where another fleet stands by, no request waits for a replica
    that is still loading."""
    if timeouts.client_gave_up(exchange, now):
        local_reply.reply_client_timeout(exchange)
        return
    if not refusal.max_wait_s:
        local_reply.reply_no_replica(exchange, refusal, failure)
        return
    if refusal.code == COLD and exchange.falls_back("no_eligible_replica", now, exchange.tried):
        return
    head = exchange.head
    deadline = min(now + refusal.max_wait_s, exchange.started + pool.policy.timeouts.total_s)
    client_s = exchange.started + head.time_limit_s if head.time_limit_s else inf
    deadline = min(deadline, client_s)
    waiting = QueuedRequest(exchange, pool, refusal, failure, dropped_by, start)
    since = min(exchange.started, now)
    work = pool.speed.estimated(exchange.work)
    adapters = () if exchange.pinned is not None else needed_adapters.limited(exchange, pool)
    particular = bool(exchange.tried or adapters) or exchange.pinned is not None
    client, charge = turns_of(exchange), pool.charge(exchange.estimated_work) / exchange.weight()
    waiting.ticket = Ticket(
        waiting, request_rank(exchange), since, deadline, work, particular, client, charge, adapters
    )
    refused = pool.admission.join(waiting.ticket, refusal.preferred, now)
    if refused is None:
        exchange.wait_for(waiting)
        if exchange.record is not None:
            exchange.record.queued(now)
        return
    is_late = refused.code == "queue_late" and deadline == client_s
    if is_late and exchange.falls_back("deadline", now, exchange.tried):
        return
    if refusal.code in SAY_WHY:
        words = f"{refused.message}; {refusal.message}"
        refused = Rejection(refused.code, words, refused.retry_after_s)
    local_reply.reply_no_replica(exchange, refused, failure)


def turns_of(exchange: ExchangeState) -> int:
    """The client with which the request takes turns: its key, where keys are in use, else its address (of
    IPv6 the /64, which is one subscriber's)."""
    caller = exchange.caller()
    return client_number(client_group(caller.decode("latin-1")).encode() if b":" in caller else caller)


def request_rank(exchange: ExchangeState) -> int:
    """The rank of the request's priority class; 0 is served first. It is the client key's.
    ``X-Switchyard-Priority`` may lower it, and may ask for any class where no keys are in use."""
    rank = exchange.priority()
    fields = exchange.head.fields.lower()
    at = fields.find(_FIELD)
    if at < 0:
        return rank
    value = fields[at + len(_FIELD) :].split(b"\r\n", 1)[0].strip().decode("latin-1")
    if value not in PRIORITIES:
        return rank
    asked = PRIORITIES.index(value)
    return max(rank, asked) if exchange.proxy.keys else asked
