"""Exchange, upstream side: the attempts (retries) at replicas, and the response's path to the client.

Once the fleet is known, it starts an attempt and sends the request. If the attempt fails, it starts another
or sends a local reply. A response that comes in one piece is completed in one step,
:meth:`UpstreamExchange.response`. Any other is forwarded piece by piece as it comes (streaming).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import Final

from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import MONITORED, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.attempt.tunnel import TunnelAttempt
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.policy import FallbackCause
from routing.contract.sketch import bucket_of
from routing.http.chunked import LAST_CHUNK, encode_chunk
from routing.http.response_handler import Passthrough
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.http.upstream_pool import ADDRESS_DENIED, LOCAL_ERROR, NOT_VERIFIED
from routing.protocols import openai
from routing.protocols.stream_start import StreamStart
from routing.proxy.errors import LocalReply
from routing.proxy.exchange import (
    affinity_key,
    answer_check,
    broken_stream,
    exposure_guard,
    failed_attempt,
    held_beginning,
    local_reply,
    moving,
    queued_request,
    router,
    timeouts,
    token_measures,
    tunnel,
)
from routing.proxy.exchange.continuation import seam
from routing.proxy.exchange.continuation.continuable_response import ContinuableResponse
from routing.proxy.exchange.failed_attempt import AttemptOwner
from routing.proxy.exchange.fallback import refused_request, takeover
from routing.proxy.exchange.fallen_back import FallbackTarget, FallenBack
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.request_fingerprint import fingerprint_of
from routing.proxy.exchange.response_headers import proxied_response
from routing.proxy.exchange.retry_policy import (
    add_fallback_fields,
    add_retry_fields,
    outcome_of,
)
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import Ending, SecondInFlight
from routing.proxy.exchange.streaming_response import StreamingResponse
from routing.proxy.exchange.upstream_request import request_bytes, send_request
from routing.proxy.limits import request_limits
from routing.proxy.upstream_endpoint import NO_CREDENTIAL, UpstreamEndpoint

_SUCCESS: Final = Outcome.SUCCESS
_CLOSES: Final = b"\r\nConnection: close\r\n\r\n"
_KEEPS: Final = b"\r\n\r\n"
_WHY_NOT: Final = {
    NOT_VERIFIED: "is not verified",
    NO_CREDENTIAL: "gets no requests",
    ADDRESS_DENIED: "gets no requests",
}


class UpstreamExchange(AttemptOwner):
    """Implements what :mod:`routing.http.upstream_connection` and :mod:`routing.http.upstream_pool` call for
    a request to a replica."""

    __slots__ = ()

    # --- attempts ---------------------------------------------------------------------------------

    def dispatch(self, pool: Pool, now: float) -> None:
        """The fleet is known: count the request there, and start an attempt. Raises :class:`RoutingError`."""
        if self.client.head_s:
            request_limits.check_head_time(pool, self.client.head_s)
        head = self.head
        route: RequestRoute = head.route  # type: ignore[assignment]
        if not route.opens & pool.requires:
            exposure_guard.check(self, pool)
        if head.work is not None:
            router.use_stated_work(self, pool, now)
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
        """Start an attempt. ``failure``: the reply after the one before. ``fresh``: use a new connection.
        ``found``: the attempt itself, if the request was queued. ``dropped_by``: a replica to try again only
        if no other has a slot."""
        tried = self.tried if dropped_by is None else queued_request.excluded(self, pool, dropped_by, now)
        head = self.head
        limit_s = head.time_limit_s
        if found is not None:
            attempt: Attempt | Rejection = found
        elif self.pinned is not None:
            attempt = pool.begin_pinned(self.pinned, self.work, now, stated=self.own_work is not None)
        elif limit_s or pool.first_token_s:
            if pool.fallback and takeover.avoids_lateness(self, pool, now):
                return
            attempt = affinity_key.begin(self, pool, now, tried)
        elif pool.reads_requests or self.own_work is not None:
            attempt = affinity_key.begin(self, pool, now, tried)
        else:
            attempt = pool.begin(self.work, now, tried)
        if isinstance(attempt, Rejection):
            start = partial(self._admitted, pool, failure, fresh)
            queued_request.enqueue(self, pool, attempt, failure, dropped_by, start, now)
            return
        if self.own_work is not None:
            attempt = pool.by_stated_work(attempt, self.own_work)
        if failure is not None:
            # If another replica serves the request, the fault was the first replica's.
            attempt.monitor()
        if attempt.mode == MONITORED:
            if self.upload is None:
                attempt.source = fingerprint_of(self)
            else:
                attempt.stop_monitoring()
        if limit_s and not self._is_within_client_timeout(pool, attempt, now):
            return
        if failure is not None:
            self.extra_attempts += 1
            pool.counters.retries += 1
            pool.totals.retried()
            self.retry_fields = add_retry_fields(self.retry_fields, failure.code)
        self.attempt = attempt
        self.progressed_at = now
        if self.record is not None:
            self.record.attempt_started(attempt, "" if failure is None else failure.code)
        endpoint: UpstreamEndpoint | None = attempt.replica.endpoint  # type: ignore[assignment]
        if endpoint is None:
            endpoint = self.proxy.endpoint(attempt.replica)
        upstream = None if fresh else endpoint.pool.acquire()
        if upstream is None:
            self.cancel_connecting = endpoint.pool.connect(self)
        elif self.body_charge is None:
            # As _send, without the call: a body that is counted comes in pieces, or is large.
            self.upstream = upstream
            is_head = head.method == b"HEAD"
            upstream.send(self, request_bytes(self, endpoint, self.body_bytes), is_head, False)
        else:
            self._send(endpoint, upstream)

    def _admitted(
        self, pool: Pool, failure: LocalReply | None, fresh: bool, found: Attempt, now: float
    ) -> None:
        self._start_attempt(pool, now, failure, fresh=fresh, found=found)

    def _is_within_client_timeout(self, pool: Pool, attempt: Attempt, now: float) -> bool:
        """Whether the client's own timeout leaves time to send the request."""
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
        self.progressed_at = now = monotonic()
        self.attempt.connection_opened(now)
        if self.record is not None:
            self.record.sends(self.attempt)
        self._send(self.proxy.endpoint(self.attempt.replica), upstream)

    def connect_failed(self, reason: str, code: str) -> None:
        self.cancel_connecting = None
        what = _WHY_NOT.get(code, "cannot be reached")
        failure = failed_attempt.unreached(self, code, f"the replica {what}: {reason}")
        failed_attempt.fail(self, Outcome.REFUSED, failure, repeat=True)

    def connect_prevented(self, reason: str, code: str) -> None:
        self.cancel_connecting = None
        failure = LocalReply(503, code, f"the proxy can open no connection to a replica: {reason}", 1.0)
        # Local ports are used up for one address at a time; a descriptor is wanted for any.
        failed_attempt.fail(self, Outcome.PREVENTED, failure, repeat=code == LOCAL_ERROR)

    def _send(self, endpoint: UpstreamEndpoint, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        upload = self.upload
        if upload is None:
            send_request(self, self, endpoint, upstream)
            return
        is_head = self.head.method == b"HEAD"
        self.repeatable = False
        if not upload.complete:
            assert self.attempt is not None
            self.attempt.wait_for_client()
        first = upload.framed(upload.take())
        upstream.send(self, request_bytes(self, endpoint, first), is_head, not upload.complete)
        if self.body_charge is not None:
            router.body_sent(self)
        self.client.resume_body()

    def send_more(self, upload: RequestBodyBuffer, piece: bytes, complete: bool) -> None:
        """Forward more of the body of a request whose head was sent."""
        upload.complete = complete
        self.progressed_at = now = monotonic()
        if complete and self.attempt is not None:
            self.attempt.wait_for_replica(now)
            if self.streaming_response is None:
                self.attempt.request_sent(now)
        response = self.streaming_response
        if response is not None and response.is_tunnel:
            response.count_sent(piece)
        assert self.upstream is not None
        self.upstream.send_more(upload.framed(piece), complete)

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
        if self.body_charge is not None:
            router.body_sent(self)

    def free_retry_copy(self) -> bool:
        upstream = self.upstream
        if upstream is None or not self.body_bytes or upstream.unsent_bytes or self.second is not None:
            return False
        self.repeatable = False
        router.drop_body(self)
        return True

    # --- the response ------------------------------------------------------------------------------

    def informational(self, head: ResponseHead) -> None:
        self.repeatable = False
        if self.head.minor == 1 and self.streaming_response is None:
            self.client.write(head.block + b"\r\n\r\n")
            self.informed = True

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        if self.streaming_response is not None:
            self._resume(head, body, complete, now)
            return
        if (
            head.unusual
            and head.status >= 400
            and (
                failed_attempt.retries_response(self, head, complete, now)
                or refused_request.falls_back(self, head, body, complete, now)
            )
        ):
            return
        if not complete:
            held_beginning.begin(self, head, body, now)
            return
        attempt, client, pool = self.attempt, self.client, self.pool
        assert attempt is not None
        assert pool is not None
        if head.chunked or self.stream:
            if broken_stream.is_truncated_whole(self, head, body):
                failed_attempt.fail_truncated(self)
                return
            if failed_attempt.retries_failure_alone(self, head, body):
                return
            self._note_first_token(attempt, now)
        if body[-1:] != b"}" and broken_stream.is_truncated_object(self, head, body):
            failed_attempt.fail_truncated(self)
            return
        outcome = _SUCCESS
        if attempt.replica.inspected:
            outcome = answer_check.outcome_of_body(self, head, body, now)
            if outcome is not _SUCCESS and failed_attempt.retries_without_result(self, now):
                return
        if self.second is not None:
            self.second.give_up("lost", now)
        if self.body_charge is None:
            keep = self.head.keep_alive and not self.proxy.draining
        else:
            keep = self.head.keep_alive and client.may_keep_alive(True)
            router.release_budget(self)
        ending = _KEEPS if keep else _CLOSES
        usage = openai.usage_of(body)
        prompt = output = 0
        if usage is not None:
            output, both = usage
            prompt = both - output
            if output and not prompt:
                prompt = token_measures.estimated_prompt(self)
        elif pool.protocol == "openai" and head.block.find(b"text/event-stream") >= 0:
            output = openai.events_of(body)
            prompt = token_measures.estimated_prompt(self) if output else 0
        # Before the write: what a client has an answer to is counted, even if the worker is killed then.
        totals = pool.totals
        if not head.unusual:
            totals.served(now - self.started, prompt, output)
        else:
            if head.status >= 400:
                outcome = outcome_of(head)
            if head.status >= 500:
                pool.counters.errors += 1
                totals.failed_at_replica(head.status)
            elif head.status >= 400:
                totals.client_error()
            else:
                totals.served(now - self.started, prompt, output)
            if head.chunked and self.head.method != b"HEAD":
                # It came in chunks, but as a whole, so its length is known.
                ending = b"\r\nContent-Length: %d%b" % (len(body), ending)
        endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
        # Before the write: a client that reads slowly pauses whatever upstream connection is still set here.
        self.upstream = None
        # As proxied_response, without the call.
        ours, request_id, retries = endpoint.response_fields, self.request_id, self.retry_fields
        client.write(b"".join((head.block, ours, request_id, retries, ending, body)))
        self.attempt = None
        if self.stream and outcome is _SUCCESS:
            token_measures.first_token(self, attempt, now)
        if prompt:
            attempt.prompt_read(prompt)
        bucket = attempt.settle(outcome, now, output, at_once=True)
        # As local_reply.record_completion and Pool.observe, without the calls. With only one attempt its
        # duration is that of the request.
        if attempt.started != self.started:
            bucket = bucket_of(now - self.started)
        if self.quota is not None:
            self.settle_quota_from_body(head, usage, output, bucket)
        counters = pool.counters
        counters.in_flight -= 1
        counters.answered += 1
        counts = counters.latency
        counts[bucket] = counts.get(bucket, 0) + 1
        if self.record is not None:
            counted = (output, output) if usage is None and output else usage
            self.record.completed("answered", usage=counted)
        client.finish(now, keep)

    def begin_streaming(
        self, head: ResponseHead, body: bytes, now: float, start: StreamStart | None = None
    ) -> None:
        pool, attempt, client = self.pool, self.attempt, self.client
        assert pool is not None
        assert attempt is not None
        if self.second is not None:
            self.second.give_up("lost", now)
        if start is None:
            self._content_begins(attempt, now)
        request = self.body_bytes
        router.drop_body(self)
        keep = self.head.keep_alive and client.may_keep_alive(False)
        outcome = outcome_of(head)
        response: StreamingResponse | None = None
        if pool.policy.continuation == "auto":
            response = seam.response_of(self, head, outcome, keep, request)
        if response is None:
            route: RequestRoute = self.head.route  # type: ignore[assignment]
            mark = route.result_mark
            response = StreamingResponse(head, outcome, self.head.minor, keep, pool.protocol, mark)
        response.start = start
        self.streaming_response = response
        if start is None and response.is_events and head.status < 400:
            token_measures.first_token(self, attempt, now)
        if attempt.replica.inspected:
            answer_check.watch(self, head, response, now)
        if body:
            attempt.heard(now, response.count(body))
        endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
        client.write(
            proxied_response(self, endpoint, head.block, response.ending, response.framed(body, False))
        )
        if client.write_paused:
            self.client_paused(True)

    def _content_begins(self, attempt: Attempt, now: float) -> None:
        attempt.first_byte(now)
        self._note_first_token(attempt, now)
        self.progressed_at = now

    def progress(self, now: float) -> None:
        self.progressed_at = now

    def _note_first_token(self, attempt: Attempt, now: float) -> None:
        """A response begins, or would have begun later."""
        seconds = self.pool.seconds  # type: ignore[union-attr]
        if seconds.of_streams and self.stream:
            seconds.began(now - attempt.started, attempt.own_work)

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        response, attempt, client = self.streaming_response, self.attempt, self.client
        if response is None:
            held_beginning.add(self, piece, complete, now)
            return
        assert attempt is not None
        if response.uncounted_chunks:
            self.account_passthrough(now)
        if response.start is not None:
            if response.tells(piece):
                self._content_begins(attempt, now)
                token_measures.first_token(self, attempt, now)
        elif complete or response.tells(piece):
            self.progressed_at = now
        if complete:
            self.upstream = None
            if broken_stream.is_truncated(response, piece):
                self._truncated(response, attempt, piece, now)
                return
        attempt.heard(now, response.count(piece))
        framed = response.framed(piece, complete)
        if framed:
            client.write(framed)
        if complete and response.is_cut:
            failure = LocalReply(502, "bad_response", "the stream ended before its answer did")
            failed_attempt.fail(self, Outcome.LOST, failure, repeat=False)
        elif complete and response.is_tunnel:
            self.close_tunnel(now, "answered")
            client.finish(now, False)
        elif complete:
            self.attempt = None
            tokens, outcome = response.tokens(), response.outcome
            if response.watched is not None:
                outcome = answer_check.outcome_of_stream(self, attempt, response.watched, now)
            prompt = response.prompt_tokens()
            if prompt:
                attempt.prompt_read(prompt)
            if outcome is _SUCCESS:
                token_measures.answer_ended(self, response, attempt, now)
            attempt.settle(outcome, now, tokens)
            local_reply.record_completion(
                self, "answered", answered=True, failed=response.failed, now=now, status=response.status
            )
            # The head that was sent has decided whether the connection is kept. Without "close" in it the
            # client may be sending the next request already, also while the proxy drains.
            client.finish(now, response.keep and client.request_is_complete)

    def _truncated(self, response: StreamingResponse, attempt: Attempt, piece: bytes, now: float) -> None:
        """The stream has ended well in HTTP, with this piece, but is not a whole answer."""
        attempt.heard(now, response.count(piece))
        # A response of a known length would be whole with it.
        if piece and (response.chunks or response.ends_with_connection):
            self.client.write(response.framed(piece, False))
        failed_attempt.fail_truncated(self)

    def passthrough(self) -> Passthrough | None:
        """Chunks are not counted one by one, so that an event costs hardly more than its two system calls.
        :meth:`account_passthrough` counts them a quarter of a second later."""
        response = self.streaming_response
        return (
            (response.uncounted_chunks.append, self.client.unbatched_write())
            if response is not None and response.passes_chunks and response.start is None
            else None
        )

    def account_passthrough(self, now: float) -> None:
        """Count the chunks that were forwarded since the last call. Called from time to time, and before
        anything that uses the response's tokens or the time of its last progress."""
        response, attempt = self.streaming_response, self.attempt
        if response is not None and attempt is not None and response.uncounted_chunks:
            if response.has_told():
                self.progressed_at = now
            attempt.heard(now, response.count_uncounted())

    def _resume(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        """A replica has responded that is to go on with a response that has begun."""
        response, attempt = self.streaming_response, self.attempt
        assert isinstance(response, ContinuableResponse)
        assert attempt is not None
        refusal = seam.refusal_of(response, head, attempt.replica)
        if refusal is not None:
            if not complete:
                self.drop_upstream()
            failed_attempt.fail(self, outcome_of(head), refusal, repeat=False)
            return
        attempt.first_byte(now)
        router.drop_body(self)
        self.pool.counters.continued += not response.is_moving  # type: ignore[union-attr]
        self.client.write(response.resume(outcome_of(head), attempt.replica.continuation.echoes))
        if self.client.write_paused and not complete:
            self.client_paused(True)
        self.data(body, complete, now)

    def client_paused(self, paused: bool) -> None:
        if self.upstream is None:
            return
        if paused:
            self.upstream.pause()
            if self.proxy.unread.are_many:
                self.upstream.read_little()
        else:
            self.progressed_at = monotonic()
            self.upstream.resume()

    @property
    def asks_for_web_socket(self) -> bool:
        return self.head.upgrade

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        assert self.attempt is not None
        self.repeatable = False
        self.attempt = TunnelAttempt(self.attempt, now)
        self.streaming_response = tunnel.tunnel_response(self, head)
        self.progressed_at = now
        tunnel.open_tunnel(self, head, first, now)

    def close_tunnel(self, now: float, ending: Ending, code: str = "") -> None:
        """End the tunnel: the client has left, or the replica has and the caller closes the client's side.
        ``code``: why the proxy ends it."""
        attempt, upstream = self.attempt, self.upstream
        self.attempt = self.upstream = None
        if upstream is not None:
            upstream.close()
        if attempt is not None:
            attempt.settle(self.streaming_response.outcome, now)  # type: ignore[union-attr]
        local_reply.record_completion(self, ending, code=code)

    # --- failed attempts ---------------------------------------------------------------------------

    def lost(self, reason: str, no_response_yet: bool) -> None:
        upstream = self.upstream
        assert upstream is not None
        self.upstream = None
        repeat = failed_attempt.may_repeat_lost(self, no_response_yet)
        # A request whose connection was lost is repeated once only.
        self.repeatable = False
        failure = LocalReply(502, "replica_lost" if no_response_yet else "bad_response", reason)
        stale = no_response_yet and upstream.reused
        failed_attempt.fail(self, Outcome.LOST, failure, repeat, stale=stale)

    def waiting_since(self) -> tuple[float, float, float] | None:
        attempt, response = self.attempt, self.streaming_response
        if attempt is None or (response is not None and response.is_tunnel):
            return None
        if response is None and self.upload is not None and not self.upload.complete:
            return None
        return attempt.started, self.progressed_at, attempt.own_work

    def replica_lost(self, reason: str, *, in_any_case: bool) -> None:
        upstream, response = self.upstream, self.streaming_response
        if upstream is None or (response is not None and response.is_tunnel):
            return
        if (
            in_any_case
            or self.second is not None
            or failed_attempt.may_go_elsewhere(self)
            or seam.can_leave(self, monotonic())
        ):
            upstream.give_up(reason)

    def taken_for_lost(self) -> None:
        if self.attempt is not None:
            self.attempt.write_off()

    def time_out(self, exceeded: timeouts.ExceededTimeout) -> None:
        """A timeout of the attempt has passed."""
        connecting = self.cancel_connecting is not None
        self.drop_upstream()
        if connecting:
            failed_attempt.fail_connecting(self, exceeded)
        else:
            failed_attempt.fail_in_time(self, exceeded)

    def take_attempt(self) -> Attempt:
        attempt = self.attempt
        assert attempt is not None
        if self.held is not None:
            held_beginning.drop(self)
        self.attempt = self.upstream = None
        return attempt

    def count_never_sent(self) -> None:
        self.never_sent += 1
        # A move is none of them.
        self.extra_attempts = max(0, self.extra_attempts - 1)

    def retry(
        self,
        pool: Pool,
        now: float,
        failure: LocalReply,
        tried: tuple[Replica, ...],
        fresh: bool = False,
        dropped_by: Replica | None = None,
    ) -> None:
        self.tried = tried
        self._start_attempt(pool, now, failure, fresh=fresh, dropped_by=dropped_by)

    # --- another fleet -------------------------------------------------------------------------------

    def falls_back(self, cause: FallbackCause, now: float, tried: tuple[Replica, ...]) -> bool:
        return takeover.takes_over(self, cause, now, tried)

    def change_fleet(
        self, target: FallbackTarget, fallen: FallenBack, tried: tuple[Replica, ...], now: float
    ) -> None:
        self.pool.counters.in_flight -= 1  # type: ignore[union-attr]
        if tried or not self.repeatable:
            self.extra_attempts += 1
        router.readdress(self, target.head, target.body, target.model)
        self.fallen = fallen
        self.tried = tried
        # Of a lost connection, another fleet's replicas know nothing.
        self.repeatable = True
        self.retry_fields = add_fallback_fields(self.retry_fields, fallen.fields(target))
        self.pool = pool = target.pool
        pool.request_seen()
        pool.counters.in_flight += 1
        if self.head.work is not None:
            router.use_stated_work(self, pool, now)
        self._start_attempt(pool, now)

    # --- a second attempt ----------------------------------------------------------------------------

    def second_begins(self, second: SecondInFlight, reason: str) -> None:
        self.second = second
        self.extra_attempts += 1
        self.retry_fields = add_retry_fields(self.retry_fields, reason)
        if self.record is not None:
            self.record.second_started(second.attempt, reason)

    def second_ends(self, result: str, attempt: Attempt | None) -> None:
        self.second = None
        if self.record is not None:
            self.record.second_ended(result, attempt)

    def not_again(self, replica: Replica, never_sent: bool) -> None:
        self.tried = (*self.tried, replica)
        if never_sent:
            self.count_never_sent()

    def first_is_beaten(self, now: float) -> None:
        self.drop_upstream()
        attempt = self.take_attempt()
        self.tried = (*self.tried, attempt.replica)
        attempt.settle(Outcome.BEATEN, now)
        if attempt.replica.told_at > attempt.started:
            # It is slow, not silent: it would have taken longer.
            self._note_first_token(attempt, now)

    def goes_on_with(
        self,
        attempt: Attempt,
        upstream: UpstreamConnection | None,
        cancel_connecting: Callable[[], bool] | None,
        progressed_at: float,
    ) -> None:
        if upstream is not None:
            upstream.handler = self
        self.attempt = attempt
        self.upstream = upstream
        self.cancel_connecting = cancel_connecting
        self.progressed_at = progressed_at

    # --- a response that has begun -------------------------------------------------------------------

    def goes_on(self, lost: Replica, never_sent: bool, failure: LocalReply) -> bool:
        response = self.streaming_response
        return isinstance(response, ContinuableResponse) and seam.goes_on(
            self, response, lost, never_sent, failure
        )

    def end_answer(self, events: bytes, now: float) -> None:
        response = self.streaming_response
        assert response is not None
        self.client.write((encode_chunk(events) if events else b"") + LAST_CHUNK)
        token_measures.answer_ended(self, response, None, now)
        local_reply.record_completion(self, "answered", answered=True, now=now)
        self.client.finish(now, response.keep and self.client.request_is_complete)

    def begin_again(
        self, pool: Pool, now: float, failure: LocalReply, tried: tuple[Replica, ...], body: bytes
    ) -> None:
        self.tried = tried
        router.replace_body(self, body)
        self._start_attempt(pool, now, failure, fresh=True)

    def move(self, full: Collection[Replica]) -> moving.Left:
        """Leave for another replica now, if one has room: the present one is to be free. ``full``: replicas
        that must not be asked now."""
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        if self.second is not None:
            # It is at another one already.
            return moving.STAYS
        now = monotonic()
        self.account_passthrough(now)
        move = moving.next_move(self, pool, attempt.replica, full, now)
        if not isinstance(move, moving.Move):
            return move
        # The other one's slot is taken before anything is given up here.
        found = affinity_key.begin(self, pool, now, move.excluded)
        if isinstance(found, Rejection):
            return moving.NO_ROOM
        self.drop_upstream()
        self.take_attempt()
        attempt.settle(Outcome.CANCELLED, now)
        moving.count(pool, attempt.replica, move)
        if move.rest is not None:
            move.rest.ask()
            router.replace_body(self, move.rest.asked.body)
        self._start_attempt(pool, now, fresh=move.rest is not None, found=found)
        return moving.MOVED

    def upstream_is_done(self) -> None:
        self.upstream = None

    def drop_upstream(self) -> None:
        if self.cancel_connecting is not None:
            self.cancel_connecting()
            self.cancel_connecting = None
        if self.upstream is not None:
            self.upstream.discard()
            self.upstream = None

    def drop_attempt(self, outcome: Outcome) -> None:
        """Cancel the attempt, or the wait for one."""
        if self.held is not None:
            held_beginning.drop(self)
        if self.second is not None:
            self.second.give_up("cancelled", monotonic())
        self.drop_upstream()
        if self.waiting is not None:
            self.waiting.leave()
        attempt = self.attempt
        if attempt is not None:
            now = monotonic()
            self.account_passthrough(now)
            self.attempt = None
            attempt.settle(outcome, now)
