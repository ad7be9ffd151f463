"""One exchange: a client's request, the attempts made for it, and its answer.

Here are the request and the attempts; :mod:`routing.proxy.state` has the fields and the theory of them,
:mod:`routing.proxy.answering` what happens once a replica answers. The usual request passes
:meth:`Exchange.begin`, then :meth:`Answering.response`, and nothing between them; each write is one joined
piece of bytes.
"""

from __future__ import annotations

from time import monotonic

from routing.attempts.impatient import make_impatient
from routing.attempts.outcome import Outcome
from routing.attempts.unsent import wait_for_client, wait_for_replica
from routing.attempts.watched import WatchedAttempt, make_plain, make_watched
from routing.http.errors import RequestRefused
from routing.http.response_head import ResponseHead
from routing.http.upstream import UpstreamConnection
from routing.http.upstream_pool import NOT_VERIFIED
from routing.policies.refusal import Refusal
from routing.pool.one_replica import OneReplica
from routing.pool.pool import Attempt, Pool
from routing.proxy import (
    affinity_key,
    ends,
    kept_responses,
    plan,
    request_limits,
    search,
    time_limits,
    tunnel,
    waiting,
)
from routing.proxy.answering import Answering
from routing.proxy.destination import Unroutable
from routing.proxy.ends import Failure
from routing.proxy.forwarded import request_bytes
from routing.proxy.link import NO_CREDENTIAL, Link
from routing.proxy.plan import Plan
from routing.proxy.replay import (
    LACKS_MODEL,
    MOST_EXTRA_TRIES,
    another_because,
    outcome_of,
    replay_is_safe,
    retried_because,
)
from routing.proxy.upload import HELD_BYTES, Upload
from routing.proxy.whose import source_of
from routing.replica import Replica

_WHY_NOT = {NOT_VERIFIED: "is not verified", NO_CREDENTIAL: "cannot be asked"}


class Exchange(Answering):
    """Implements what :mod:`routing.http.client` and :mod:`routing.http.upstream` expect of one."""

    __slots__ = ()

    # --- the request, told by the client's connection ---------------------------------------------

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        planned: Plan = head.note  # type: ignore[assignment]
        if planned is None:
            head.note = planned = proxy.plans.plan(head)
        if complete:
            self.body_bytes = body
        else:
            self.upload = Upload(head.chunked, body, self.client.head_s)
        kind = planned.kind
        try:
            if kind == plan.IN_BODY:
                if complete:
                    self.take(search.by_body(self), self.started)
                else:
                    pool = search.collect(self, len(body))
                    if pool is not None:
                        self.take(pool, self.started)
            elif kind < plan.LOCAL:
                pool = search.by_head(self, planned, body, complete)
                if pool is None:
                    pool = search.collect(self, len(body))
                if pool is not None:
                    self.take(pool, self.started)
            elif kind == plan.LOCAL:
                ends.answer_locally(self)
            elif kind == plan.STATE:
                if not ends.answer_for_fleet(self, planned):
                    pool = search.by_head(self, planned, body, complete)
                    assert pool is not None, "no body of a GET is waited for"
                    self.take(pool, self.started)
            elif kind == plan.LOOP:
                words = "the request has passed this proxy before: a replica leads back to it"
                raise Unroutable(508, "loop", words)
            elif complete:
                self._find_kept(self.client.head_s)
            else:
                pool = search.collect(self, len(body))
                if pool is not None:
                    self.take(pool, self.started)
        except Unroutable as error:
            ends.refuse(self, error)

    def body(self, piece: bytes, complete: bool) -> None:
        upload, upstream = self.upload, self.upstream
        assert upload is not None
        if upstream is not None:
            upload.complete = complete
            self.moved_at = now = monotonic()
            if complete and self.attempt is not None:
                wait_for_replica(self.attempt, now)
                if self.answer is None:
                    self.attempt.request_sent(now)
            upstream.send_more(upload.framed(piece), complete)
            return
        upload.add(piece, complete)
        if self.pool is None:
            try:
                pool = search.collect(self, len(piece))
                if complete and pool is None:
                    pool = search.collected(self)
                if pool is not None:
                    request_limits.check_head(pool, upload.head_s)
                    # Time that the client took to send it is not the replica's.
                    self.take(pool, monotonic())
                elif complete:
                    self._find_kept(upload.head_s)
            except Unroutable as error:
                ends.refuse(self, error)
        elif upload.held > HELD_BYTES and not complete:
            self.client.pause_body()

    def _find_kept(self, head_s: float) -> None:
        """The request names, or makes, what a replica keeps. ``head_s``: what its head took."""

        def take(pool: Pool, now: float) -> None:
            request_limits.check_head(pool, head_s)
            self.take(pool, now)

        kept_responses.find(self, take)

    def refuse(self, error: RequestRefused) -> None:
        self.proxy.rejected += 1
        self._drop_attempt(Outcome.CANCELLED)
        if self.answer is not None:
            ends.close_books(self, answered=False)
            self.client.abort(self.answer.ends_with_connection)
        else:
            ends.answer_error(self, Failure(error.status, error.code, error.message))

    @property
    def allows_half_close(self) -> bool:
        # Who asks for a WebSocket has more to say.
        return self.pool is not None and self.pool.policy.half_close == "allow" and not self.head.upgrade

    def client_gone(self) -> None:
        if self.answer is not None and self.answer.is_tunnel:
            tunnel.close_tunnel(self, monotonic())
            return
        self._drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        ends.close_books(self, answered=False)

    def check(self, now: float) -> float:
        self.note_passed(now)
        request_limits.follow(self)
        if time_limits.is_too_late(self, now):
            self._give_up()
            return 0.0
        overrun = time_limits.overrun(self, now)
        if overrun is None:
            return 0.0 if self.answer is None else time_limits.may_wait_s(self)
        connecting = self.cancel_connecting is not None
        self._drop_upstream()
        if connecting:
            failure = Failure(504, "connect_timeout", overrun.message)
            self._failed(Outcome.REFUSED, failure, repeat=not overrun.final)
        else:
            self._failed(Outcome.TIMEOUT, Failure(504, "timeout", overrun.message), repeat=False)
        return 0.0

    # --- attempts ---------------------------------------------------------------------------------

    def take(self, pool: Pool, now: float) -> None:
        """The fleet is known: its books begin. Raises :class:`Unroutable`."""
        if self.client.head_s:
            request_limits.check_head(pool, self.client.head_s)
        self.pool = pool
        pool.request_seen()
        pool.counters.in_flight += 1
        self._try(pool, now)

    def _try(
        self,
        pool: Pool,
        now: float,
        failure: Failure | None = None,
        fresh: bool = False,
        found: Attempt | None = None,
        dropped_by: Replica | None = None,
    ) -> None:
        """Begin an attempt. ``failure``: of the one before. ``fresh``: on a new connection. ``found``: the
        attempt itself, that was waited for. ``dropped_by``: who is asked again only where no other can be."""
        tried = self.tried if dropped_by is None else waiting.avoided(self, pool, dropped_by, now)
        limit_s = self.head.time_limit_s
        if found is not None:
            attempt: Attempt | Refusal = found
        elif pool.affinity is not None:
            attempt = affinity_key.begin(self, pool, now, tried)
        elif limit_s:
            attempt = pool.begin(self.work, now, tried, until=self.started + limit_s)
        else:
            attempt = pool.begin(self.work, now, tried)
        if failure is not None and type(attempt) is Attempt:
            # That another replica answers what one has failed at says whose fault it was.
            make_watched(attempt)
        if type(attempt) is not Attempt:
            if type(attempt) is not WatchedAttempt:
                self._wait(pool, attempt, now, failure, fresh, dropped_by)  # type: ignore[arg-type]
                return
            if self.upload is None:
                attempt.source = source_of(self)
            else:
                make_plain(attempt)
        if limit_s and not self._client_waits(pool, attempt, now):
            return
        self.attempt = attempt
        self.moved_at = now
        link: Link = attempt.replica.http  # type: ignore[assignment]
        if link is None:
            link = self.proxy.link(attempt.replica)
        upstream = None if fresh else link.pool.acquire()
        if upstream is None:
            self.cancel_connecting = link.pool.connect(self)
        elif self.upload is None:
            # As _send, without the call.
            self.upstream = upstream
            is_head = self.head.method == b"HEAD"
            upstream.send(self, request_bytes(self, link, self.body_bytes), is_head, False)
        else:
            self._send(link, upstream)

    def _wait(
        self,
        pool: Pool,
        refusal: Refusal | None,
        now: float,
        failure: Failure | None,
        fresh: bool,
        dropped_by: Replica | None,
    ) -> None:
        """No replica takes it now: wait for one where that helps, else answer."""
        if time_limits.is_too_late(self, now):
            ends.answer_too_late(self)
            return
        assert refusal is not None
        if refusal.waits_s:

            def start(found: Attempt, now: float) -> None:
                self._try(pool, now, failure, fresh=fresh, found=found)

            refusal = waiting.line_up(self, pool, refusal, failure, dropped_by, start, now)
        if refusal is not None:
            ends.no_replica(self, refusal, failure)

    def _client_waits(self, pool: Pool, attempt: Attempt, now: float) -> bool:
        """Whether the client's own time limit leaves time to send this."""
        if time_limits.is_too_late(self, now):
            attempt.settle(Outcome.CANCELLED, now)
            ends.answer_too_late(self)
            return False
        if self.head.time_limit_s <= pool.policy.timeouts.stall_s:
            make_impatient(attempt)
        return True

    def connected(self, upstream: UpstreamConnection) -> None:
        self.cancel_connecting = None
        assert self.attempt is not None
        self.moved_at = monotonic()
        self._send(self.proxy.link(self.attempt.replica), upstream)

    def connect_failed(self, reason: str, code: str) -> None:
        self.cancel_connecting = None
        what = _WHY_NOT.get(code, "cannot be reached")
        self._failed(Outcome.REFUSED, Failure(502, code, f"the replica {what}: {reason}"), repeat=True)

    def connect_prevented(self) -> None:
        self.cancel_connecting = None
        words = "the proxy has no file descriptor left for a connection to a replica; try again"
        self._failed(Outcome.PREVENTED, Failure(503, "descriptors_exhausted", words, 1.0), repeat=False)

    def _send(self, link: Link, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        upload = self.upload
        is_head = self.head.method == b"HEAD"
        if upload is None:
            upstream.send(self, request_bytes(self, link, self.body_bytes), is_head, False)
            return
        self.repeatable = False
        if not upload.complete:
            assert self.attempt is not None
            wait_for_client(self.attempt)
        first = upload.framed(upload.take())
        upstream.send(self, request_bytes(self, link, first), is_head, not upload.complete)
        self.client.resume_body()

    def lost(self, reason: str, untouched: bool) -> None:
        pool, upstream = self.pool, self.upstream
        assert pool is not None
        assert upstream is not None
        self.upstream = None
        policy = pool.policy.retries.replay_safe
        repeat = untouched and self.repeatable and replay_is_safe(self.head, pool.protocol, policy)
        # The second loss of one request is its last.
        self.repeatable = False
        failure = Failure(502, "replica_lost" if untouched else "bad_response", reason)
        self._failed(Outcome.LOST, failure, repeat, stale=upstream.reused)

    def another_is_asked(self, head: ResponseHead, complete: bool, now: float) -> bool:
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        already = self.tried
        if head.status >= 500 or head.status == 404:
            attempt.source = source_of(self)
        if not self.repeatable or isinstance(already, OneReplica) or len(already) >= MOST_EXTRA_TRIES:
            return False
        reason = another_because(self.head, head, pool.protocol, pool.policy.retries)
        if not reason or (reason is LACKS_MODEL and already):
            return False
        tried = (*already, attempt.replica)
        if time_limits.are_over(self, now) or not pool.has_other_than(tried, now) or not pool.retry_allowed():
            return False
        if not complete:
            # Reading the rest would make the client wait for an answer that nobody gets.
            attempt.first_byte(now)
            self._drop_upstream()
        self.upstream = self.attempt = None
        outcome = Outcome.WITHOUT_MODEL if reason is LACKS_MODEL else outcome_of(head)
        attempt.settle(outcome, now, at_once=complete)
        pool.counters.retries += 1
        self.tried = tried
        self.retried = retried_because(self.retried, reason)
        words = f"replica {attempt.replica.name} answered {head.status}, and nobody else can be asked"
        self._try(pool, now, Failure(503, reason, words, 1.0))
        return True

    def replica_paused(self, paused: bool) -> None:
        self.moved_at = now = monotonic()
        attempt, upload = self.attempt, self.upload
        if paused:
            if attempt is not None:
                wait_for_replica(attempt, now)
            self.client.pause_body()
        else:
            if attempt is not None and upload is not None and not upload.complete:
                wait_for_client(attempt)
            self.client.resume_body()

    # --- ends -------------------------------------------------------------------------------------

    def _failed(self, outcome: Outcome, failure: Failure, repeat: bool, stale: bool = False) -> None:
        """The attempt came to nothing. ``repeat``: the rules allow another. ``stale``: an idle
        connection was used, which the replica may have been closing."""
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        now = monotonic()
        self.note_passed(now)
        self.attempt = None
        if outcome is Outcome.REFUSED:
            attempt.replica.not_verified = failure.message if failure.code == NOT_VERIFIED else ""
        elif outcome is not Outcome.PREVENTED:
            attempt.source = source_of(self)
        attempt.settle(outcome, now)
        if self.answer is not None:
            ends.close_books(self, answered=False, failed=not self.answer.is_tunnel)
            self.client.abort(self.answer.ends_with_connection)
        elif time_limits.is_too_late(self, now):
            ends.answer_too_late(self)
        elif (
            repeat
            and self._may_ask_again(stale)
            and not time_limits.are_over(self, now)
            and pool.retry_allowed(unsent=outcome is Outcome.REFUSED)
        ):
            pool.counters.retries += 1
            self.retried = retried_because(self.retried, failure.code)
            dropped_by = None
            if not isinstance(self.tried, OneReplica):
                # That an idle connection was closed says nothing about the replica: on a new one it may be
                # asked. Yet it may have been killed this moment, so another one is asked before it.
                if stale:
                    dropped_by = attempt.replica
                else:
                    self.tried = (*self.tried, attempt.replica)
            # What was lost once is not risked on another idle connection.
            self._try(pool, now, failure, fresh=not self.repeatable, dropped_by=dropped_by)
        else:
            ends.answer_error(self, failure)

    def _may_ask_again(self, stale: bool) -> bool:
        tried = self.tried
        # No other replica has what the one keeps.
        return stale if isinstance(tried, OneReplica) else len(tried) < MOST_EXTRA_TRIES

    def _give_up(self) -> None:
        """The client has stopped waiting, though its connection is open."""
        self._drop_attempt(Outcome.CANCELLED)
        if self.answer is None:
            ends.answer_too_late(self)
        else:
            assert self.pool is not None
            self.pool.counters.cancelled += 1
            ends.close_books(self, answered=False)
            self.client.abort(self.answer.ends_with_connection)

    def _drop_upstream(self) -> None:
        if self.cancel_connecting is not None:
            self.cancel_connecting()
            self.cancel_connecting = None
        if self.upstream is not None:
            self.upstream.discard()
            self.upstream = None

    def _drop_attempt(self, outcome: Outcome) -> None:
        """Stop what is on its way upstream, or waits to be."""
        self._drop_upstream()
        if self.waiting is not None:
            self.waiting.leave()
        attempt = self.attempt
        if attempt is not None:
            now = monotonic()
            self.note_passed(now)
            self.attempt = None
            attempt.settle(outcome, now)
