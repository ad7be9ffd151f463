"""A replica's answer on its way to the client.

An answer that comes in one piece is settled in one step, :meth:`Answering.response`; any other is passed on
piece by piece as it comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import monotonic

from routing.attempts.outcome import Outcome
from routing.contract.sketch import bucket_of
from routing.http.consumer import Passage
from routing.http.response_head import ResponseHead
from routing.protocols import openai
from routing.proxy import ends, tunnel
from routing.proxy.link import Link
from routing.proxy.replay import outcome_of
from routing.proxy.state import ExchangeState
from routing.proxy.streamed import StreamedAnswer

_SUCCESS = Outcome.SUCCESS
_CLOSES = b"\r\nConnection: close\r\n\r\n"
_KEEPS = b"\r\n\r\n"


class Answering(ExchangeState, ABC):
    """An exchange from the moment that its replica answers."""

    __slots__ = ()

    def informational(self, head: ResponseHead) -> None:
        self.repeatable = False
        if self.head.minor == 1:
            self.client.write(head.block + b"\r\n\r\n")

    @abstractmethod
    def another_is_asked(self, head: ResponseHead, complete: bool, now: float) -> bool:
        """Whether this answer, an error, is dropped, because another replica may give a better one."""

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        if head.status >= 400 and self.another_is_asked(head, complete, now):
            return
        if not complete:
            self._begin_answer(head, body, now)
            return
        attempt, client, pool = self.attempt, self.client, self.pool
        assert attempt is not None
        assert pool is not None
        if self.upload is None:
            keep = self.head.keep_alive and not self.proxy.draining
        else:
            keep = self.head.keep_alive and client.may_go_on(True)
        ending = _KEEPS if keep else _CLOSES
        outcome = _SUCCESS
        if head.unusual:
            outcome = outcome_of(head)
            if head.chunked and self.head.method != b"HEAD":
                # It came in chunks, but all at once: now its length is known.
                ending = b"\r\nContent-Length: %d%b" % (len(body), ending)
        link: Link = attempt.replica.http  # type: ignore[assignment]
        # First, for a client that does not take the answer pauses whatever is still here.
        self.upstream = None
        write = client.write
        write(b"".join((head.block, link.response_fields, self.request_id, self.retried, ending, body)))
        self.attempt = None
        # find() and not "in": that first tries to read the left side as a number, and raises within.
        says_tokens = body.find(b"_tokens") >= 0
        tokens = openai.completion_tokens(body) if says_tokens else 0
        bucket = attempt.settle(outcome, now, tokens, at_once=True)
        if self.use is not None:
            self.end_use_answered(head, body, tokens, says_tokens)
        # As ends.close_books and Pool.observe, without the calls. The only attempt took as long as the whole.
        if attempt.started != self.started:
            bucket = bucket_of(now - self.started)
        counters = pool.counters
        counters.in_flight -= 1
        counters.answered += 1
        counts = counters.latency
        counts[bucket] = counts.get(bucket, 0) + 1
        if head.status >= 500:
            counters.errors += 1
        client.finish(now, keep)

    def _begin_answer(self, head: ResponseHead, body: bytes, now: float) -> None:
        """Pass on the head of an answer that is still going on."""
        pool, attempt, client = self.pool, self.attempt, self.client
        assert pool is not None
        assert attempt is not None
        attempt.first_byte(now)
        self.moved_at = now
        self.body_bytes = b""
        keep = self.head.keep_alive and client.may_go_on(False)
        self.answer = answer = StreamedAnswer(head, outcome_of(head), self.head.minor, keep, pool.protocol)
        if body:
            attempt.heard(now, answer.count(body))
        link: Link = attempt.replica.http  # type: ignore[assignment]
        about = self.request_id + self.retried
        body = answer.framed(body, False)
        client.write(b"".join((head.block, link.response_fields, about, answer.ending, body)))
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
            self.note_passed(now)
        self.moved_at = now
        if complete:
            self.upstream = None
        attempt.heard(now, answer.count(piece))
        framed = answer.framed(piece, complete)
        if framed:
            client.write(framed)
        if complete and answer.is_tunnel:
            tunnel.close_tunnel(self, now)
            client.finish(now, False)
        elif complete:
            self.attempt = None
            attempt.settle(answer.outcome, now, answer.tokens())
            ends.close_books(self, answered=True, failed=answer.failed, now=now)
            # Its head has said whether the connection stays. Where it did not say "close", the client may be
            # sending the next request already, also while the proxy drains.
            client.finish(now, answer.keep and client.request_is_whole)

    def passage(self) -> Passage | None:
        """Past the books: an event costs hardly more than its two system calls, and :meth:`note_passed` has
        it in them a quarter of a second later."""
        answer = self.answer
        assert answer is not None
        return (answer.passed.append, self.client.write_at_once()) if answer.chunks else None

    def note_passed(self, now: float) -> None:
        """Of the chunks that have passed since the last look. Called from time to time, and before anything
        that goes by the answer's tokens or by when it moved."""
        answer, attempt = self.answer, self.attempt
        if answer is not None and attempt is not None and answer.passed:
            self.moved_at = now
            attempt.heard(now, answer.count_passed())

    def client_paused(self, paused: bool) -> None:
        if self.upstream is None:
            return
        if paused:
            self.upstream.transport.pause_reading()
        else:
            self.moved_at = monotonic()
            self.upstream.transport.resume_reading()
