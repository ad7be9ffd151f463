"""One exchange: a client's request, the attempts (retries) made for it, and its response.

This module has the request and the attempts; :mod:`routing.proxy.exchange.state` has the fields and the
theory; :mod:`routing.proxy.exchange.response_path` has what follows once a replica responds. The usual
request passes :meth:`Exchange.begin`, then :meth:`ResponsePath.response`, and nothing between them; each
write is one joined piece of bytes.
"""

from __future__ import annotations

from time import monotonic

from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import MONITORED, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.http.errors import RequestRefused
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.http.upstream_pool import NOT_VERIFIED
from routing.proxy.errors import LocalReply, RoutingError
from routing.proxy.exchange import (
    affinity_key,
    body_router,
    local_reply,
    queued_request,
    sticky_routing,
    timeouts,
    tunnel,
)
from routing.proxy.exchange.request_body_buffer import HELD_BYTES, RequestBodyBuffer
from routing.proxy.exchange.request_fingerprint import fingerprint_of
from routing.proxy.exchange.response_path import ResponsePath
from routing.proxy.exchange.retry_policy import (
    LACKS_MODEL,
    MAX_RETRIES,
    add_retry_fields,
    outcome_of,
    replay_is_safe,
    retry_reason,
)
from routing.proxy.exchange.route import HEALTH, IN_BODY, LOCAL, LOOP, RequestRoute
from routing.proxy.exchange.upstream_request import request_bytes
from routing.proxy.limits import request_limits
from routing.proxy.upstream_endpoint import NO_CREDENTIAL, UpstreamEndpoint

_WHY_NOT = {NOT_VERIFIED: "is not verified", NO_CREDENTIAL: "cannot be asked"}


class Exchange(ResponsePath):
    """Implements what :mod:`routing.http.client_connection` and :mod:`routing.http.upstream_connection`
    expect of one."""

    __slots__ = ()

    # --- the request, told by the client's connection ---------------------------------------------

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        route: RequestRoute = head.route  # type: ignore[assignment]
        if route is None:
            head.route = route = proxy.routes.route_of(head)
        if complete:
            self.body_bytes = body
        else:
            self.upload = RequestBodyBuffer(head.chunked, body, self.client.head_s)
        kind = route.kind
        try:
            if kind == IN_BODY:
                if complete:
                    self.dispatch(body_router.route_by_body(self), self.started)
                else:
                    pool = body_router.collect(self, len(body))
                    if pool is not None:
                        self.dispatch(pool, self.started)
            elif kind < LOCAL:
                pool = body_router.route_by_head(self, route, body, complete)
                if pool is None:
                    pool = body_router.collect(self, len(body))
                if pool is not None:
                    self.dispatch(pool, self.started)
            elif kind == LOCAL:
                local_reply.reply_model_list(self)
            elif kind == HEALTH:
                if not local_reply.reply_health(self, route):
                    pool = body_router.route_by_head(self, route, body, complete)
                    assert pool is not None, "no body of a GET is waited for"
                    self.dispatch(pool, self.started)
            elif kind == LOOP:
                words = "the request has passed this proxy before: a replica leads back to it"
                raise RoutingError(508, "loop", words)
            elif complete:
                self._dispatch_sticky(self.client.head_s)
            else:
                pool = body_router.collect(self, len(body))
                if pool is not None:
                    self.dispatch(pool, self.started)
        except RoutingError as error:
            local_reply.refuse(self, error)

    def body(self, piece: bytes, complete: bool) -> None:
        upload, upstream = self.upload, self.upstream
        assert upload is not None
        if upstream is not None:
            upload.complete = complete
            self.progressed_at = now = monotonic()
            if complete and self.attempt is not None:
                self.attempt.wait_for_replica(now)
                if self.answer is None:
                    self.attempt.request_sent(now)
            upstream.send_more(upload.framed(piece), complete)
            return
        upload.add(piece, complete)
        if self.pool is None:
            try:
                pool = body_router.collect(self, len(piece))
                if complete and pool is None:
                    pool = body_router.route_collected(self)
                if pool is not None:
                    request_limits.check_head_time(pool, upload.head_s)
                    # Time that the client took to send it is not the replica's.
                    self.dispatch(pool, monotonic())
                elif complete:
                    self._dispatch_sticky(upload.head_s)
            except RoutingError as error:
                local_reply.refuse(self, error)
        elif upload.held > HELD_BYTES and not complete:
            self.client.pause_body()

    def _dispatch_sticky(self, head_s: float) -> None:
        """The request names, or makes, what a replica keeps. ``head_s``: what its head took."""

        def dispatch(pool: Pool, now: float) -> None:
            request_limits.check_head_time(pool, head_s)
            self.dispatch(pool, now)

        sticky_routing.route_sticky(self, dispatch)

    def refuse(self, error: RequestRefused) -> None:
        self.proxy.rejected += 1
        self._drop_attempt(Outcome.CANCELLED)
        if self.answer is not None:
            local_reply.record_completion(self, "cut")
            self.client.abort(self.answer.ends_with_connection)
        else:
            local_reply.send_local_reply(self, LocalReply(error.status, error.code, error.message))

    @property
    def allows_half_close(self) -> bool:
        # Who asks for a WebSocket has more to say.
        return self.pool is not None and self.pool.policy.half_close == "allow" and not self.head.upgrade

    def client_gone(self) -> None:
        if self.answer is not None and self.answer.is_tunnel:
            tunnel.close_tunnel(self, monotonic(), "client_left")
            return
        self._drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        local_reply.record_completion(self, "client_left")

    def check(self, now: float) -> float:
        self.account_passthrough(now)
        upload, pool = self.upload, self.pool
        if upload is not None and not upload.complete and pool is not None:
            request_limits.update_body_rate(self.client, pool, upload.max_bytes)
        if timeouts.client_gave_up(self, now):
            self._give_up()
            return 0.0
        exceeded = timeouts.exceeded(self, now)
        if exceeded is None:
            return 0.0 if self.answer is None else timeouts.check_interval_s(self)
        connecting = self.cancel_connecting is not None
        self._drop_upstream()
        if connecting:
            failure = LocalReply(504, "connect_timeout", exceeded.message)
            self._failed(Outcome.REFUSED, failure, repeat=not exceeded.final)
        else:
            self._failed(Outcome.TIMEOUT, LocalReply(504, "timeout", exceeded.message), repeat=False)
        return 0.0

    # --- attempts ---------------------------------------------------------------------------------

    def dispatch(self, pool: Pool, now: float) -> None:
        """The fleet is known: it counts the request from here on. Raises :class:`RoutingError`."""
        if self.client.head_s:
            request_limits.check_head_time(pool, self.client.head_s)
        self.pool = pool
        pool.request_seen()
        pool.counters.in_flight += 1
        self._start_attempt(pool, now)

    def _start_attempt(
        self,
        pool: Pool,
        now: float,
        failure: LocalReply | None = None,
        fresh: bool = False,
        found: Attempt | None = None,
        dropped_by: Replica | None = None,
    ) -> None:
        """Begin an attempt. ``failure``: of the one before. ``fresh``: on a new connection. ``found``: the
        attempt itself, that was waited for. ``dropped_by``: who is asked again only where no other can be."""
        tried = self.tried if dropped_by is None else queued_request.excluded(self, pool, dropped_by, now)
        limit_s = self.head.time_limit_s
        if found is not None:
            attempt: Attempt | Rejection = found
        elif self.pinned is not None:
            attempt = pool.begin_pinned(self.pinned, self.work, now)
        elif pool.affinity is not None:
            attempt = affinity_key.begin(self, pool, now, tried)
        elif limit_s:
            attempt = pool.begin(self.work, now, tried, until=self.started + limit_s)
        else:
            attempt = pool.begin(self.work, now, tried)
        if isinstance(attempt, Rejection):
            self._enqueue(pool, attempt, now, failure, fresh, dropped_by)
            return
        if failure is not None:
            # That another replica answers what one has failed at says whose fault it was.
            attempt.monitor()
        if attempt.mode == MONITORED:
            if self.upload is None:
                attempt.source = fingerprint_of(self)
            else:
                attempt.stop_monitoring()
        if limit_s and not self._is_within_client_timeout(pool, attempt, now):
            return
        self.attempt = attempt
        self.progressed_at = now
        if self.record is not None:
            self.record.attempt_started(attempt)
        endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
        if endpoint is None:
            endpoint = self.proxy.endpoint(attempt.replica)
        upstream = None if fresh else endpoint.pool.acquire()
        if upstream is None:
            self.cancel_connecting = endpoint.pool.connect(self)
        elif self.upload is None:
            # As _send, without the call.
            self.upstream = upstream
            is_head = self.head.method == b"HEAD"
            upstream.send(self, request_bytes(self, endpoint, self.body_bytes), is_head, False)
        else:
            self._send(endpoint, upstream)

    def _enqueue(
        self,
        pool: Pool,
        refusal: Rejection | None,
        now: float,
        failure: LocalReply | None,
        fresh: bool,
        dropped_by: Replica | None,
    ) -> None:
        """No replica takes it now: wait for one where that helps, else answer."""
        if timeouts.client_gave_up(self, now):
            local_reply.reply_client_timeout(self)
            return
        assert refusal is not None
        if refusal.max_wait_s:

            def start(found: Attempt, now: float) -> None:
                self._start_attempt(pool, now, failure, fresh=fresh, found=found)

            refusal = queued_request.enqueue(self, pool, refusal, failure, dropped_by, start, now)
        if refusal is not None:
            local_reply.reply_no_replica(self, refusal, failure)

    def _is_within_client_timeout(self, pool: Pool, attempt: Attempt, now: float) -> bool:
        """Whether the client's own time limit leaves time to send this."""
        if timeouts.client_gave_up(self, now):
            attempt.settle(Outcome.CANCELLED, now)
            local_reply.reply_client_timeout(self)
            return False
        if self.head.time_limit_s <= pool.policy.timeouts.stall_s:
            attempt.mark_short_deadline()
        return True

    def connected(self, upstream: UpstreamConnection) -> None:
        self.cancel_connecting = None
        assert self.attempt is not None
        self.progressed_at = monotonic()
        self._send(self.proxy.endpoint(self.attempt.replica), upstream)

    def connect_failed(self, reason: str, code: str) -> None:
        self.cancel_connecting = None
        what = _WHY_NOT.get(code, "cannot be reached")
        self._failed(Outcome.REFUSED, LocalReply(502, code, f"the replica {what}: {reason}"), repeat=True)

    def descriptors_exhausted(self) -> None:
        self.cancel_connecting = None
        words = "the proxy has no file descriptor left for a connection to a replica; try again"
        self._failed(Outcome.PREVENTED, LocalReply(503, "descriptors_exhausted", words, 1.0), repeat=False)

    def _send(self, endpoint: UpstreamEndpoint, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        upload = self.upload
        is_head = self.head.method == b"HEAD"
        if upload is None:
            upstream.send(self, request_bytes(self, endpoint, self.body_bytes), is_head, False)
            return
        self.repeatable = False
        if not upload.complete:
            assert self.attempt is not None
            self.attempt.wait_for_client()
        first = upload.framed(upload.take())
        upstream.send(self, request_bytes(self, endpoint, first), is_head, not upload.complete)
        self.client.resume_body()

    def lost(self, reason: str, no_response_yet: bool) -> None:
        pool, upstream = self.pool, self.upstream
        assert pool is not None
        assert upstream is not None
        self.upstream = None
        policy = pool.policy.retries.replay_safe
        repeat = no_response_yet and self.repeatable and replay_is_safe(self.head, pool.protocol, policy)
        # The second loss of one request is its last.
        self.repeatable = False
        failure = LocalReply(502, "replica_lost" if no_response_yet else "bad_response", reason)
        self._failed(Outcome.LOST, failure, repeat, stale=upstream.reused)

    def retries_response(self, head: ResponseHead, complete: bool, now: float) -> bool:
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        already = self.tried
        if head.status >= 500 or head.status == 404:
            attempt.source = fingerprint_of(self)
        if not self.repeatable or self.pinned is not None or len(already) >= MAX_RETRIES:
            return False
        reason = retry_reason(self.head, head, pool.protocol, pool.policy.retries)
        if not reason or (reason is LACKS_MODEL and already):
            return False
        tried = (*already, attempt.replica)
        if (
            timeouts.no_time_left(self, now)
            or not pool.has_other_than(tried, now)
            or not pool.retry_allowed()
        ):
            return False
        if not complete:
            # Reading the rest would make the client wait for a response that is not forwarded.
            attempt.first_byte(now)
            self._drop_upstream()
        self.upstream = self.attempt = None
        outcome = Outcome.WITHOUT_MODEL if reason is LACKS_MODEL else outcome_of(head)
        attempt.settle(outcome, now, at_once=complete)
        pool.counters.retries += 1
        self.tried = tried
        self.retry_fields = add_retry_fields(self.retry_fields, reason)
        words = f"replica {attempt.replica.name} answered {head.status}, and nobody else can be asked"
        self._start_attempt(pool, now, LocalReply(503, reason, words, 1.0))
        return True

    def replica_paused(self, paused: bool) -> None:
        self.progressed_at = now = monotonic()
        attempt, upload = self.attempt, self.upload
        if paused:
            if attempt is not None:
                attempt.wait_for_replica(now)
            self.client.pause_body()
        else:
            if attempt is not None and upload is not None and not upload.complete:
                attempt.wait_for_client()
            self.client.resume_body()

    # --- ends -------------------------------------------------------------------------------------

    def _failed(self, outcome: Outcome, failure: LocalReply, repeat: bool, stale: bool = False) -> None:
        """The attempt came to nothing. ``repeat``: the rules allow another. ``stale``: an idle
        connection was used, which the replica may have been closing."""
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        now = monotonic()
        self.account_passthrough(now)
        self.attempt = None
        if outcome is Outcome.REFUSED:
            attempt.replica.security.not_verified = failure.message if failure.code == NOT_VERIFIED else ""
        elif outcome is not Outcome.PREVENTED:
            attempt.source = fingerprint_of(self)
        attempt.settle(outcome, now)
        if self.answer is not None:
            local_reply.record_completion(self, "cut", failed=not self.answer.is_tunnel)
            self.client.abort(self.answer.ends_with_connection)
        elif timeouts.client_gave_up(self, now):
            local_reply.reply_client_timeout(self)
        elif (
            repeat
            and self._may_ask_again(stale)
            and not timeouts.no_time_left(self, now)
            and pool.retry_allowed(unsent=outcome is Outcome.REFUSED)
        ):
            pool.counters.retries += 1
            self.retry_fields = add_retry_fields(self.retry_fields, failure.code)
            dropped_by = None
            if self.pinned is None:
                # That an idle connection was closed says nothing about the replica: on a new one it may be
                # asked. Yet it may have been killed this moment, so another one is asked before it.
                if stale:
                    dropped_by = attempt.replica
                else:
                    self.tried = (*self.tried, attempt.replica)
            # What was lost once is not risked on another idle connection.
            self._start_attempt(pool, now, failure, fresh=not self.repeatable, dropped_by=dropped_by)
        else:
            local_reply.send_local_reply(self, failure)

    def _may_ask_again(self, stale: bool) -> bool:
        # No other replica has what the one keeps.
        return len(self.tried) < MAX_RETRIES if self.pinned is None else stale

    def _give_up(self) -> None:
        """The client has stopped waiting, though its connection is open."""
        self._drop_attempt(Outcome.CANCELLED)
        if self.answer is None:
            local_reply.reply_client_timeout(self)
        else:
            assert self.pool is not None
            self.pool.counters.cancelled += 1
            local_reply.record_completion(self, "cut")
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
            self.account_passthrough(now)
            self.attempt = None
            attempt.settle(outcome, now)
