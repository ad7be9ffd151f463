"""One exchange: a client's request, the attempts made for it, and its answer.

Theory. An exchange goes through these states, told apart by three fields; each event below either
moves it on or ends it, and whatever ends it settles the attempt that is open.

=========== ======= ======== ====== ==============================================================
state       attempt upstream answer what it waits for
=========== ======= ======== ====== ==============================================================
searching   None    None     None   the rest of the body, because only the body names the fleet
connecting  set     None     None   a connection to the replica
waiting     set     set      None   the response's head (and perhaps more of the request's body)
answering   set     set      set    the rest of the response
=========== ======= ======== ====== ==============================================================

Whoever takes ``attempt`` away settles it. The usual request passes :meth:`begin`, then :meth:`response`,
and nothing between them; each write is one joined piece of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from routing.http.client import ClientConnection
from routing.http.errors import RequestRefused
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.upstream import UpstreamConnection
from routing.outcome import Outcome
from routing.pool import Attempt, Pool
from routing.protocols import openai
from routing.proxy import ends, plan, search, time_limits
from routing.proxy.cost import ask_of
from routing.proxy.destination import Unroutable, find_planned
from routing.proxy.ends import Failure
from routing.proxy.forwarded import request_bytes
from routing.proxy.link import Link
from routing.proxy.plan import Plan
from routing.proxy.replay import MOST_EXTRA_TRIES, outcome_of, replay_is_safe
from routing.proxy.streamed import StreamedAnswer
from routing.proxy.upload import HELD_BYTES, Upload
from routing.replica import Replica

if TYPE_CHECKING:
    from routing.proxy.proxy import Proxy

_SUCCESS = Outcome.SUCCESS
_ENDINGS = (b"\r\nConnection: close\r\n\r\n", b"\r\n\r\n")


class Exchange:
    """Implements what :mod:`routing.http.client` and :mod:`routing.http.upstream` expect of one."""

    __slots__ = (
        "answer",
        "attempt",
        "body_bytes",
        "cancel_connecting",
        "client",
        "head",
        "moved_at",
        "pool",
        "proxy",
        "repeatable",
        "request_id",
        "started",
        "stream",
        "tried",
        "upload",
        "upstream",
        "work",
    )

    def __init__(self, proxy: Proxy, client: ClientConnection, head: RequestHead) -> None:
        # Of the request.
        self.proxy = proxy
        self.client = client
        self.head = head
        self.started = self.moved_at = monotonic()
        """``moved_at``: when the present attempt last made progress."""
        self.request_id = head.request_id or proxy.request_id()
        self.body_bytes = b""
        """The whole body, kept until a response begins; empty while ``upload`` is set."""
        self.upload: Upload | None = None
        self.stream = False
        """Whether the client asked to have the answer streamed."""

        self.work = 0.0
        """Estimated units; 0: no estimate."""

        # Of the attempts.
        self.pool: Pool | None = None
        self.attempt: Attempt | None = None
        self.upstream: UpstreamConnection | None = None
        self.cancel_connecting: Callable[[], bool] | None = None
        self.tried: tuple[Replica, ...] = ()
        self.repeatable = True
        """Everything sent so far can be sent once more, and the client has seen nothing."""

        # Of the answer.
        self.answer: StreamedAnswer | None = None

    # --- the request, told by the client's connection ---------------------------------------------

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        planned: Plan = head.note  # type: ignore[assignment]
        if planned is None:
            head.note = planned = proxy.plans.plan(head)
        if complete:
            self.body_bytes = body
        else:
            self.upload = Upload(head.chunked, body)
        kind = planned.kind
        try:
            if kind == plan.IN_BODY:
                if complete:
                    search.find(self, self.started)
                else:
                    search.collect(self, len(body))
            elif kind == plan.LOCAL:
                ends.answer_locally(self)
            elif kind == plan.LOOP:
                words = "the request has passed this proxy before: a replica leads back to it"
                raise Unroutable(508, "loop", words)
            else:
                pool = find_planned(proxy.table, planned)
                if not complete and search.is_worth_collecting(pool.protocol, head):
                    search.collect(self, len(body))
                else:
                    _, self.stream, self.work = ask_of(pool.protocol, head, body, complete)
                    self.take(pool, self.started)
        except Unroutable as error:
            ends.refuse(self, error)

    def body(self, piece: bytes, complete: bool) -> None:
        upload, upstream = self.upload, self.upstream
        assert upload is not None
        if upstream is not None:
            upload.complete = complete
            self.moved_at = monotonic()
            upstream.send_more(upload.framed(piece), complete)
            return
        upload.add(piece, complete)
        if self.pool is None:
            try:
                search.collect(self, len(piece))
            except Unroutable as error:
                ends.refuse(self, error)
        elif upload.held > HELD_BYTES and not complete:
            self.client.pause_body()

    def refuse(self, error: RequestRefused) -> None:
        self.proxy.rejected += 1
        self._drop_attempt(Outcome.CANCELLED)
        if self.answer is not None:
            ends.close_books(self, answered=False)
            self.client.abort()
        else:
            ends.answer_error(self, Failure(error.status, error.code, error.message))

    def client_gone(self) -> None:
        self._drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        ends.close_books(self, answered=False)

    def client_paused(self, paused: bool) -> None:
        if self.upstream is None:
            return
        if paused:
            self.upstream.transport.pause_reading()
        else:
            self.moved_at = monotonic()
            self.upstream.transport.resume_reading()

    def check(self, now: float) -> None:
        overrun = time_limits.overrun(self, now)
        if overrun is None:
            return
        connecting = self.cancel_connecting is not None
        self._drop_upstream()
        if connecting:
            failure = Failure(504, "connect_timeout", overrun.message)
            self._failed(Outcome.REFUSED, failure, repeat=not overrun.final)
        else:
            self._failed(Outcome.TIMEOUT, Failure(504, "timeout", overrun.message), repeat=False)

    # --- attempts ---------------------------------------------------------------------------------

    def take(self, pool: Pool, now: float) -> None:
        """The fleet is known: its books begin."""
        self.pool = pool
        pool.request_seen()
        pool.counters.in_flight += 1
        self._try(pool, now)

    def _try(self, pool: Pool, now: float, failure: Failure | None = None, fresh: bool = False) -> None:
        """Begin an attempt. ``failure``: of the one before. ``fresh``: on a new connection."""
        attempt = pool.begin(self.work, now, self.tried)
        if type(attempt) is not Attempt:
            ends.no_replica(self, attempt, failure)  # type: ignore[arg-type]
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

    def connected(self, upstream: UpstreamConnection) -> None:
        self.cancel_connecting = None
        assert self.attempt is not None
        self.moved_at = monotonic()
        self._send(self.proxy.link(self.attempt.replica), upstream)

    def connect_failed(self, reason: str) -> None:
        self.cancel_connecting = None
        failure = Failure(502, "replica_unreachable", f"the replica cannot be reached: {reason}")
        self._failed(Outcome.REFUSED, failure, repeat=True)

    def _send(self, link: Link, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        upload = self.upload
        is_head = self.head.method == b"HEAD"
        if upload is None:
            upstream.send(self, request_bytes(self, link, self.body_bytes), is_head, False)
            return
        self.repeatable = False
        first = upload.framed(upload.take())
        upstream.send(self, request_bytes(self, link, first), is_head, not upload.complete)
        self.client.resume_body()

    # --- the response, told by the replica's connection -------------------------------------------

    def informational(self, head: ResponseHead) -> None:
        self.repeatable = False
        if self.head.minor == 1:
            self.client.write(head.block + b"\r\n\r\n")

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
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
        ending = _ENDINGS[keep]
        outcome = _SUCCESS
        if head.unusual:
            outcome = outcome_of(head)
            if head.chunked and self.head.method != b"HEAD":
                # It came in chunks, but all at once: now its length is known.
                ending = b"\r\nContent-Length: %d%b" % (len(body), ending)
        link: Link = attempt.replica.http  # type: ignore[assignment]
        client.write(b"".join((head.block, link.response_fields, self.request_id, ending, body)))
        self.upstream = self.attempt = None
        # find() and not "in": that first tries to read the left side as a number, and raises within.
        tokens = openai.completion_tokens(body) if body.find(b"_tokens") >= 0 else 0
        attempt.settle(outcome, now, tokens, at_once=True)
        # As ends.close_books, without the call.
        counters = pool.counters
        counters.in_flight -= 1
        counters.answered += 1
        pool.observe(now - self.started)
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
        request_id = self.request_id
        body = answer.framed(body, False)
        client.write(b"".join((head.block, link.response_fields, request_id, answer.ending, body)))
        if client.write_paused:
            self.client_paused(True)

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        answer, attempt, client = self.answer, self.attempt, self.client
        assert answer is not None
        assert attempt is not None
        self.moved_at = now
        if complete:
            self.upstream = None
        attempt.heard(now, answer.count(piece))
        framed = answer.framed(piece, complete)
        if framed:
            client.write(framed)
        if complete:
            self.attempt = None
            attempt.settle(answer.outcome, now, answer.tokens())
            ends.close_books(self, answered=True, failed=answer.failed, now=now)
            client.finish(now, answer.keep and client.may_go_on(True))

    def lost(self, reason: str, untouched: bool) -> None:
        pool, upstream = self.pool, self.upstream
        assert pool is not None
        assert upstream is not None
        self.upstream = None
        repeat = untouched and self.repeatable and replay_is_safe(self.head, pool.policy.retries.replay_safe)
        # The second loss of one request is its last.
        self.repeatable = False
        failure = Failure(502, "replica_lost" if untouched else "bad_response", reason)
        self._failed(Outcome.LOST, failure, repeat, stale=upstream.reused)

    def replica_paused(self, paused: bool) -> None:
        self.moved_at = monotonic()
        if paused:
            self.client.pause_body()
        else:
            self.client.resume_body()

    # --- ends -------------------------------------------------------------------------------------

    def _failed(self, outcome: Outcome, failure: Failure, repeat: bool, stale: bool = False) -> None:
        """The attempt came to nothing. ``repeat``: the rules allow another. ``stale``: an idle
        connection was used, which the replica may have been closing."""
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        now = monotonic()
        self.attempt = None
        attempt.settle(outcome, now)
        if self.answer is not None:
            ends.close_books(self, answered=False, failed=True)
            self.client.abort()
        elif repeat and len(self.tried) < MOST_EXTRA_TRIES and pool.retry_allowed():
            pool.counters.retries += 1
            if not stale or len(pool.replicas) > 1:
                self.tried = (*self.tried, attempt.replica)
            self._try(pool, now, failure, fresh=stale)
        else:
            ends.answer_error(self, failure)

    def _drop_upstream(self) -> None:
        if self.cancel_connecting is not None:
            self.cancel_connecting()
            self.cancel_connecting = None
        if self.upstream is not None:
            self.upstream.discard()
            self.upstream = None

    def _drop_attempt(self, outcome: Outcome) -> None:
        """Stop what is on its way upstream."""
        self._drop_upstream()
        attempt = self.attempt
        if attempt is not None:
            self.attempt = None
            attempt.settle(outcome, monotonic())
