"""Response path: a replica's response on its way to the client.

A response that comes in one piece is completed in one step, :meth:`ResponsePath.response`. Any other is
forwarded piece by piece as it comes (streaming).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import monotonic

from routing.balancing.attempt.outcome import Outcome
from routing.contract.sketch import bucket_of
from routing.http.response_handler import Passthrough
from routing.http.response_head import ResponseHead
from routing.protocols import openai
from routing.proxy.exchange import local_reply, tunnel
from routing.proxy.exchange.retry_policy import outcome_of
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.streaming_response import StreamingResponse
from routing.proxy.upstream_endpoint import UpstreamEndpoint

_SUCCESS = Outcome.SUCCESS
_CLOSES = b"\r\nConnection: close\r\n\r\n"
_KEEPS = b"\r\n\r\n"


class ResponsePath(ExchangeState, ABC):
    """An exchange from the moment that its replica responds."""

    __slots__ = ()

    def informational(self, head: ResponseHead) -> None:
        self.repeatable = False
        if self.head.minor == 1:
            self.client.write(head.block + b"\r\n\r\n")

    @abstractmethod
    def retries_response(self, head: ResponseHead, complete: bool, now: float) -> bool:
        """Whether this answer, an error, is dropped, because another replica may give a better one."""

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        if head.unusual and head.status >= 400 and self.retries_response(head, complete, now):
            return
        if not complete:
            self._begin_answer(head, body, now)
            return
        attempt, client = self.attempt, self.client
        assert attempt is not None
        if self.upload is None:
            keep = self.head.keep_alive and not self.proxy.draining
        else:
            keep = self.head.keep_alive and client.may_keep_alive(True)
        ending = _KEEPS if keep else _CLOSES
        outcome = _SUCCESS
        if head.unusual:
            outcome = outcome_of(head)
            if head.status >= 500:
                self.pool.counters.errors += 1  # type: ignore[union-attr]
            if head.chunked and self.head.method != b"HEAD":
                # It came in chunks, but all at once: now its length is known.
                ending = b"\r\nContent-Length: %d%b" % (len(body), ending)
        endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
        # First, for a client that does not take the answer pauses whatever is still here.
        self.upstream = None
        write = client.write
        write(
            b"".join((head.block, endpoint.response_fields, self.request_id, self.retry_fields, ending, body))
        )
        self.attempt = None
        # find() and not "in": that first tries to read the left side as a number, and raises within.
        says_tokens = body.find(b"_tokens") >= 0
        tokens = openai.completion_tokens(body) if says_tokens else 0
        bucket = attempt.settle(outcome, now, tokens, at_once=True)
        if self.quota is not None:
            self.settle_quota_from_body(head, body, tokens, says_tokens)
        # As local_reply.record_completion and Pool.observe, without the calls. The only attempt took as
        # long as all.
        if attempt.started != self.started:
            bucket = bucket_of(now - self.started)
        counters = self.pool.counters  # type: ignore[union-attr]
        counters.in_flight -= 1
        counters.answered += 1
        counts = counters.latency
        counts[bucket] = counts.get(bucket, 0) + 1
        if self.record is not None:
            self.record.completed("answered")
        client.finish(now, keep)

    def _begin_answer(self, head: ResponseHead, body: bytes, now: float) -> None:
        """Pass on the head of an answer that is still going on."""
        pool, attempt, client = self.pool, self.attempt, self.client
        assert pool is not None
        assert attempt is not None
        attempt.first_byte(now)
        self.progressed_at = now
        self.body_bytes = b""
        keep = self.head.keep_alive and client.may_keep_alive(False)
        self.answer = answer = StreamingResponse(head, outcome_of(head), self.head.minor, keep, pool.protocol)
        if body:
            attempt.heard(now, answer.count(body))
        endpoint: UpstreamEndpoint = attempt.replica.endpoint  # type: ignore[assignment]
        about = self.request_id + self.retry_fields
        body = answer.framed(body, False)
        client.write(b"".join((head.block, endpoint.response_fields, about, answer.ending, body)))
        if client.write_paused:
            self.client_paused(True)

    @property
    def asks_for_web_socket(self) -> bool:
        return self.head.upgrade

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        self.repeatable = False
        tunnel.open_tunnel(self, head, first, now)

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        answer, attempt, client = self.answer, self.attempt, self.client
        assert answer is not None
        assert attempt is not None
        if answer.passed:
            self.account_passthrough(now)
        self.progressed_at = now
        if complete:
            self.upstream = None
        attempt.heard(now, answer.count(piece))
        framed = answer.framed(piece, complete)
        if framed:
            client.write(framed)
        if complete and answer.is_tunnel:
            tunnel.close_tunnel(self, now, "answered")
            client.finish(now, False)
        elif complete:
            self.attempt = None
            attempt.settle(answer.outcome, now, answer.tokens())
            local_reply.record_completion(self, "answered", answered=True, failed=answer.failed, now=now)
            # Its head has said whether the connection stays. Where it did not say "close", the client may be
            # sending the next request already, also while the proxy drains.
            client.finish(now, answer.keep and client.request_is_complete)

    def passthrough(self) -> Passthrough | None:
        """Not counted one by one: an event costs hardly more than its two system calls, and
        :meth:`account_passthrough` counts it a quarter of a second later."""
        answer = self.answer
        assert answer is not None
        return (answer.passed.append, self.client.unbatched_write()) if answer.chunks else None

    def account_passthrough(self, now: float) -> None:
        """Of the chunks that have passed since the last look. Called from time to time, and before anything
        that goes by the answer's tokens or by when it moved."""
        answer, attempt = self.answer, self.attempt
        if answer is not None and attempt is not None and answer.passed:
            self.progressed_at = now
            attempt.heard(now, answer.count_passed())

    def client_paused(self, paused: bool) -> None:
        if self.upstream is None:
            return
        if paused:
            self.upstream.transport.pause_reading()
        else:
            self.progressed_at = monotonic()
            self.upstream.transport.resume_reading()
