"""One exchange: a client's request, the attempts made for it, and its answer.

Theory. An exchange goes through these states, told apart by three fields; each event below either
moves it on or ends it, and whatever ends it settles the attempt that is open.

=========== ======= ======== =====================================================================
state       attempt upstream what it waits for
=========== ======= ======== =====================================================================
reading     None    None     the rest of the body, because only the body names the fleet
connecting  set     None     a connection to the replica
waiting     set     set      the response's head (and, while ``complete`` is false, more of the body)
answering   set     set      the rest of the response; ``answering`` is true
=========== ======= ======== =====================================================================

The attempt is settled in one place, :meth:`Exchange._settle`; the fleet's books are done in one,
:meth:`Exchange._close_books`. The usual request passes :meth:`begin` and :meth:`response` and nothing
between them; each write is one joined piece of bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from routing.http.answers import answer
from routing.http.chunked import LAST_CHUNK, frame
from routing.http.client import ClientConnection
from routing.http.errors import RequestRefused
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.upstream import UpstreamConnection
from routing.outcome import Outcome
from routing.pool import Attempt, Pool, Refusal
from routing.protocols import openai
from routing.protocols.errors import error_answer, protocol_of_path
from routing.proxy import time_limits
from routing.proxy.cost import ask_of
from routing.proxy.destination import Unroutable, find_in_body, find_outside_body
from routing.proxy.forwarded import request_bytes, without_content_length
from routing.proxy.link import Link
from routing.proxy.local_answers import is_local, local_answer, was_here
from routing.proxy.replay import MOST_EXTRA_TRIES, outcome_of, replay_is_safe
from routing.replica import Replica

if TYPE_CHECKING:
    from routing.proxy.proxy import Proxy

_PENDING_BYTES = 65_536
"""Body bytes kept while a connection is being opened; then the client is paused."""
_NEVER_A_BODY = frozenset({204, 304})


class Failure:
    """What to tell the client when no attempt is left."""

    __slots__ = ("code", "message", "status")

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message


class Exchange:
    """Implements what :mod:`routing.http.client` and :mod:`routing.http.upstream` expect of one."""

    __slots__ = (
        "answering",
        "attempt",
        "body_bytes",
        "cancel_connecting",
        "chunks",
        "client",
        "complete",
        "framing",
        "head",
        "keep",
        "moved_at",
        "outcome",
        "peeked",
        "pending",
        "pool",
        "proxy",
        "replayed",
        "request_id",
        "sent_in_part",
        "started",
        "stream",
        "tokens",
        "tried",
        "upstream",
        "work",
    )

    def __init__(self, proxy: Proxy, client: ClientConnection, head: RequestHead) -> None:
        # Of the request.
        self.proxy = proxy
        self.client = client
        self.head = head
        self.started = monotonic()
        self.request_id = head.request_id or proxy.request_ids.next()
        self.framing = b""
        """The field that frames the body upstream, where it is not the client's own Content-Length."""
        self.body_bytes = b""
        """The body as far as it is kept; it can be sent again unless ``sent_in_part``."""
        self.complete = True
        self.pending: list[bytes] | None = None
        """Pieces that came while the fleet was not known or the connection not open."""
        self.peeked = 0
        """Bytes of them that count against the worker's budget."""
        self.sent_in_part = False
        self.work = 0.0
        self.stream = False

        # Of the attempts.
        self.pool: Pool | None = None
        self.attempt: Attempt | None = None
        self.upstream: UpstreamConnection | None = None
        self.cancel_connecting: Callable[[], bool] | None = None
        self.tried: tuple[Replica, ...] = ()
        self.replayed = False
        self.moved_at = self.started
        """When the attempt last made progress."""

        # Of the answer.
        self.answering = False
        self.outcome = Outcome.SUCCESS
        self.chunks = False
        self.keep = False
        self.tokens: openai.EventTokens | openai.TailTokens | None = None

    # --- the request, told by the client's connection ---------------------------------------------

    def begin(self, body: bytes, complete: bool) -> None:
        head, proxy = self.head, self.proxy
        self.body_bytes = body
        self.complete = complete
        if head.via is not None and was_here(head.via, proxy.via_name):
            words = "the request has passed this proxy before: a replica leads back to it"
            self._refuse_unrouted(protocol_of_path(head.target), 508, "loop", words)
            return
        if head.method != b"POST" and is_local(head):
            self._answer_locally()
            return
        try:
            pool = find_outside_body(proxy.table, head)
            if pool is None:
                if complete:
                    self._find_in_body()
                else:
                    self._peek(body)
                return
        except Unroutable as error:
            self._refuse_unrouted(error.protocol, error.status, error.code, error.message)
            return
        ask = ask_of(pool.protocol, head, body, complete)
        self.work = ask.work
        self.stream = ask.stream
        self._take(pool)

    def body(self, piece: bytes, complete: bool) -> None:
        self.complete = complete
        if self.upstream is not None:
            self._send_more(piece)
        elif self.pool is None:
            self._peek(piece)
        else:
            if self.pending is None:
                self.pending = []
            self.pending.append(piece)
            if not complete and sum(map(len, self.pending)) > _PENDING_BYTES:
                self.client.pause_body()

    def refuse(self, error: RequestRefused) -> None:
        self.proxy.rejected += 1
        protocol = self.pool.protocol if self.pool is not None else protocol_of_path(self.head.target)
        self._drop_attempt(Outcome.CANCELLED)
        if self.answering:
            self._close_books(answered=False)
            self.client.abort()
        else:
            self._answer_error(protocol, error.status, error.code, error.message)

    def client_gone(self) -> None:
        self._drop_attempt(Outcome.CANCELLED)
        if self.pool is not None:
            self.pool.counters.cancelled += 1
        self._close_books(answered=False)

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
        if self.cancel_connecting is not None and not overrun.final:
            self.cancel_connecting()
            self.connect_failed(overrun.message)
            return
        self._drop_upstream()
        self._failed(Outcome.TIMEOUT, Failure(504, "timeout", overrun.message), False)

    # --- finding the fleet ------------------------------------------------------------------------

    def _peek(self, piece: bytes) -> None:
        """Collect the body until the fleet can be read from it. Raises nothing; refuses what is too large."""
        proxy = self.proxy
        if self.pending is None:
            self.pending = []
        if piece:
            self.pending.append(piece)
        if max(self.peeked + len(piece), self.head.content_length) > proxy.settings.peek_bytes:
            words = (
                f"only the first {proxy.settings.peek_bytes} bytes of a body are searched for its model: "
                "name the fleet in the path (/fleets/{name}/v1/…) or in the field X-Switchyard-Fleet"
            )
            self._refuse_unrouted("openai", 413, "body_too_large_to_search", words)
            return
        if not proxy.peek(len(piece)):
            self._refuse_unrouted(
                "openai", 503, "busy", "too many large bodies are being read; try again", 1.0
            )
            return
        self.peeked += len(piece)
        if self.complete:
            self.body_bytes = b"".join(self.pending)
            self.pending = None
            try:
                self._find_in_body()
            except Unroutable as error:
                self._refuse_unrouted(error.protocol, error.status, error.code, error.message)

    def _find_in_body(self) -> None:
        pool, ask = find_in_body(self.proxy.table, self.head, self.body_bytes)
        self.work = ask.work
        self.stream = ask.stream
        expected = pool.served_model or pool.name
        if ask.model and ask.model != expected and self.body_bytes[:1] == b"{":
            self.body_bytes = openai.with_model(self.body_bytes, expected)
            self.head.fields = without_content_length(self.head.fields)
            self.framing = b"\r\nContent-Length: %d" % len(self.body_bytes)
        self._take(pool)

    def _take(self, pool: Pool) -> None:
        """The fleet is known: its books begin."""
        self.pool = pool
        pool.request_seen()
        pool.counters.in_flight += 1
        if self.head.chunked and not self.framing:
            if self.complete:
                self.framing = b"\r\nContent-Length: %d" % len(self.body_bytes)
            else:
                self.framing = b"\r\nTransfer-Encoding: chunked"
        self._try(pool, self.started, None)

    # --- attempts ---------------------------------------------------------------------------------

    def _try(self, pool: Pool, now: float, failure: Failure | None, fresh: bool = False) -> None:
        """Begin an attempt; ``failure``: of the one before. ``fresh``: on a new connection."""
        attempt = pool.begin(self.work, now, self.tried)
        if isinstance(attempt, Refusal):
            if failure is None:
                pool.counters.no_replica += 1
                failure = Failure(attempt.status, attempt.code, attempt.message)
            self._answer_error(
                pool.protocol, failure.status, failure.code, failure.message, attempt.retry_after_s
            )
            return
        self.attempt = attempt
        self.moved_at = now
        link = attempt.replica.http
        if link is None:
            link = self.proxy.link(attempt.replica)
        upstream = None if fresh else link.pool.acquire()  # type: ignore[attr-defined]
        if upstream is None:
            self.cancel_connecting = link.pool.connect(self)  # type: ignore[attr-defined]
        else:
            self._send(link, upstream)  # type: ignore[arg-type]

    def connected(self, upstream: UpstreamConnection) -> None:
        self.cancel_connecting = None
        assert self.attempt is not None
        self.moved_at = monotonic()
        self._send(self.proxy.link(self.attempt.replica), upstream)

    def connect_failed(self, reason: str) -> None:
        self.cancel_connecting = None
        self._failed(
            Outcome.REFUSED,
            Failure(502, "replica_unreachable", f"the replica cannot be reached: {reason}"),
            True,
        )

    def _send(self, link: Link, upstream: UpstreamConnection) -> None:
        self.upstream = upstream
        if self.pending is not None:
            self.body_bytes += b"".join(self.pending)
            self.pending = None
        complete = self.complete
        body = self.body_bytes
        if not complete:
            self.sent_in_part = True
            self.body_bytes = b""
            if self.head.chunked and body:
                body = frame(body)
        elif self.framing == b"\r\nTransfer-Encoding: chunked":
            body = (frame(body) if body else b"") + LAST_CHUNK
        upstream.send(
            self,
            request_bytes(self, link, body),
            answers_head=self.head.method == b"HEAD",
            request_open=not complete,
        )
        if not complete:
            self.client.resume_body()

    def _send_more(self, piece: bytes) -> None:
        upstream = self.upstream
        assert upstream is not None
        if self.head.chunked:
            piece = frame(piece) if piece else b""
            if self.complete:
                piece += LAST_CHUNK
        if self.complete:
            upstream.request_open = False
        if piece:
            upstream.transport.write(piece)
        self.moved_at = monotonic()

    # --- the response, told by the replica's connection -------------------------------------------

    def informational(self, head: ResponseHead) -> None:
        self.sent_in_part = True
        if self.head.minor == 1:
            self.client.transport.write(head.block + b"\r\n\r\n")

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        attempt, client, request = self.attempt, self.client, self.head
        assert attempt is not None
        attempt.first_byte(now)
        keep = request.keep_alive and client.may_go_on(complete)
        link: Link = attempt.replica.http  # type: ignore[assignment]
        if complete:
            # A chunked answer that is complete already is sent with its length.
            ending = _ENDINGS[keep]
            if head.chunked and request.method != b"HEAD":
                ending = b"\r\nContent-Length: %d%b" % (len(body), ending)
            self.upstream = None
            client.transport.write(
                b"".join((head.block, link.response_fields, self.request_id, ending, body))
            )
            tokens = openai.completion_tokens(body) if self.pool.protocol == "openai" else 0  # type: ignore[union-attr]
            self.attempt = None
            attempt.settle(outcome_of(head), now, tokens)
            self._close_books(answered=True, failed=head.status >= 500, now=now)
            client.finish(now, keep)
            return
        self._begin_answer(head, link, body, keep, now)

    def _begin_answer(self, head: ResponseHead, link: Link, body: bytes, keep: bool, now: float) -> None:
        """Pass on the head of an answer that is still going on."""
        self.answering = True
        self.moved_at = now
        self.outcome = outcome_of(head)
        self.body_bytes = b""
        ending = b"\r\n\r\n"
        if head.content_length < 0:
            self.chunks = self.head.minor == 1
            if self.chunks:
                ending = b"\r\nTransfer-Encoding: chunked\r\n\r\n"
            else:
                keep = False
        if not keep:
            ending = b"\r\nConnection: close" + ending
        self.keep = keep
        assert self.pool is not None
        if self.pool.protocol == "openai":
            events = b"text/event-stream" in head.block
            self.tokens = openai.EventTokens() if events else openai.TailTokens()
            if body:
                self._heard(body, now)
        if self.chunks and body:
            body = frame(body)
        client = self.client
        client.transport.write(b"".join((head.block, link.response_fields, self.request_id, ending, body)))
        if client.write_paused and self.upstream is not None:
            self.upstream.transport.pause_reading()

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        self.moved_at = now
        if complete:
            self.upstream = None
        elif self.tokens is None:
            self.attempt.heard(now)  # type: ignore[union-attr]
        if self.tokens is not None and piece:
            self._heard(piece, now)
        if self.chunks:
            piece = (frame(piece) if piece else b"") + (LAST_CHUNK if complete else b"")
        client = self.client
        if piece:
            client.transport.write(piece)
        if complete:
            self._settle(self.outcome, now, self.tokens.total() if self.tokens is not None else 0)
            self._close_books(answered=True, failed=self.outcome is Outcome.FAILED, now=now)
            client.finish(now, self.keep and client.may_go_on(True))

    def _heard(self, piece: bytes, now: float) -> None:
        assert self.tokens is not None
        assert self.attempt is not None
        self.attempt.heard(now, self.tokens.feed(piece))

    def lost(self, reason: str, untouched: bool) -> None:
        upstream = self.upstream
        self.upstream = None
        replay = untouched and not self.sent_in_part and not self.replayed
        assert self.pool is not None
        replay = replay and replay_is_safe(self.head, self.pool.policy.retries.replay_safe)
        self.replayed = replay or self.replayed
        code = "replica_lost" if untouched else "bad_response"
        stale = untouched and upstream is not None and upstream.reused
        self._failed(Outcome.LOST, Failure(502, code, reason), replay, stale)

    def replica_paused(self, paused: bool) -> None:
        self.moved_at = monotonic()
        if paused:
            self.client.pause_body()
        else:
            self.client.resume_body()

    # --- ends -------------------------------------------------------------------------------------

    def _failed(self, outcome: Outcome, failure: Failure, repeat: bool, stale: bool = False) -> None:
        """The attempt came to nothing. ``repeat``: the rules allow another. ``stale``: its connection was."""
        pool, attempt = self.pool, self.attempt
        assert pool is not None
        assert attempt is not None
        now = monotonic()
        self._settle(outcome, now)
        if self.answering:
            self._close_books(answered=False, failed=True)
            self.client.abort()
        elif repeat and len(self.tried) < MOST_EXTRA_TRIES and pool.retry_allowed():
            pool.counters.retries += 1
            only_one = len(pool.replicas) <= 1
            if not (stale and only_one):
                self.tried = (*self.tried, attempt.replica)
            self._try(pool, now, failure, fresh=stale)
        else:
            self._answer_error(pool.protocol, failure.status, failure.code, failure.message)

    def _drop_attempt(self, outcome: Outcome) -> None:
        """Stop what is on its way upstream."""
        if self.cancel_connecting is not None:
            self.cancel_connecting()
            self.cancel_connecting = None
        self._drop_upstream()
        if self.attempt is not None:
            self._settle(outcome, monotonic())

    def _drop_upstream(self) -> None:
        if self.upstream is not None:
            self.upstream.discard()
            self.upstream = None

    def _settle(self, outcome: Outcome, now: float, tokens: int = 0) -> None:
        attempt = self.attempt
        assert attempt is not None
        self.attempt = None
        attempt.settle(outcome, now, tokens)

    def _close_books(self, *, answered: bool, failed: bool = False, now: float = 0.0) -> None:
        if self.peeked:
            self.proxy.peek(-self.peeked)
            self.peeked = 0
        pool = self.pool
        if pool is None:
            return
        counters = pool.counters
        counters.in_flight -= 1
        if answered:
            counters.answered += 1
            pool.observe((now or monotonic()) - self.started)
        if failed:
            counters.errors += 1

    def _answer_locally(self) -> None:
        keep = self.head.keep_alive and self.client.may_go_on(self.complete)
        fields = b"\r\nX-Request-Id: " + self.request_id
        self.client.transport.write(local_answer(self.proxy.table, self.head, fields, not keep))
        self.client.finish(monotonic(), keep)

    def _refuse_unrouted(
        self, protocol: str, status: int, code: str, message: str, retry_after_s: float = 0.0
    ) -> None:
        self.proxy.rejected += 1
        self._answer_error(protocol, status, code, message, retry_after_s)

    def _answer_error(
        self, protocol: str, status: int, code: str, message: str, retry_after_s: float | None = None
    ) -> None:
        """Answer instead of a replica, in the caller's protocol's shape."""
        client = self.client
        keep = self.head.keep_alive and client.may_go_on(True)
        content_type, body = error_answer(protocol, status, code, message)
        fields = b"\r\nVia: 1.1 %b\r\nX-Request-Id: %b" % (self.proxy.via_name, self.request_id)
        if retry_after_s:
            fields += b"\r\nRetry-After: %d" % max(1, round(retry_after_s))
        now = monotonic()
        head_only = self.head.method == b"HEAD"
        client.transport.write(
            answer(status, content_type, body, fields=fields, close=not keep, head_only=head_only)
        )
        self._close_books(answered=True, failed=status >= 500, now=now)
        client.finish(now, keep)


_ENDINGS = (b"\r\nConnection: close\r\n\r\n", b"\r\n\r\n")
