"""Upstream connection: one connection to a replica, one request at a time, and the response's framing.

Theory. Between two requests a connection has no handler and is idle in its replica's pool; any byte or end of
file that arrives then makes it useless. With a handler it reads a head, then a body whose end RFC 9112 §6.3
defines in one of four ways (``_NONE``, ``_LENGTH``, ``_CHUNKED``, ``_UNTIL_CLOSE``). The handler gets every
piece at once; only an incomplete head is buffered here.

As on the client's side the last head is kept: one that is repeated byte for byte is not parsed again. Two
usual cases are handled in ``data_received`` itself: a response with a known head and its whole body in one
segment, and a piece of a stream that is whole chunks (mostly one) in one segment, which is forwarded with its
framing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, Protocol

from routing.http import stream_heads
from routing.http.abort import abort_transport, has_unsent
from routing.http.chunked import ChunkedDecoder, are_whole_chunks, size_lines
from routing.http.errors import BadChunk, BadResponse
from routing.http.held_heads import HeldHeads
from routing.http.read_turns import LARGE, ReadTurns
from routing.http.response_handler import Passthrough, ResponseHandler
from routing.http.response_head import (
    MAX_RESPONSE_HEAD,
    ResponseHead,
    parse_response_head,
    switches_to_web_socket,
)
from routing.http.response_template import LONGEST, TRIES, ResponseTemplate, template_of
from routing.http.small_reads import SmallReads
from routing.http.syntax import BARE_LINE_FEED, HEAD_END
from routing.http.write_batch import WriteBatch

SLICE: Final = 262_144
"""Bytes of a large body that are written at once. The kernel would copy megabytes in one call."""
_CLOSE_GRACE_S: Final = 0.02
"""A replica that reads nothing would not hear of the end at all."""
_HEAD: Final = 0
_LENGTH: Final = 1
_CHUNKED: Final = 2
_UNTIL_CLOSE: Final = 3


class PoolHandle(Protocol):
    """The owner of a connection: the pool of its replica, or what closes it after its present response."""

    authority: bytes
    writes: WriteBatch
    turns: ReadTurns
    heads: HeldHeads
    on_load_report: Callable[[bytes], None] | None
    """Hears what the field ``endpoint-load-metrics`` of an answer says, in lower case."""

    def opened(self, upstream: UpstreamConnection) -> None: ...
    def closed(self, upstream: UpstreamConnection) -> None:
        """May be said more than once."""

    def release(self, upstream: UpstreamConnection, now: float) -> None:
        """Its response is complete, and it can be used again."""


class UpstreamConnection(asyncio.Protocol):
    """One connection to a replica."""

    __slots__ = (
        "_abandoned",
        "_answers_head",
        "_decoder",
        "_held_head",
        "_known",
        "_known_head",
        "_known_stop",
        "_partial",
        "_passthrough",
        "_paused",
        "_piece",
        "_ready",
        "_remaining",
        "_rest",
        "_reusable",
        "_state",
        "_template",
        "_tries",
        "_waits_turn",
        "_write",
        "handler",
        "held_until",
        "idle_since",
        "pool",
        "request_open",
        "reused",
        "transport",
        "write_paused",
    )

    def __init__(self, pool: PoolHandle) -> None:
        self.pool = pool
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self._write: Callable[[bytes | memoryview], None] = None  # type: ignore[assignment]
        """The transport's, at the end of the loop's turn."""
        self.idle_since = 0.0
        self.reused = False
        """Whether it has served a request before the present one."""
        self.write_paused = False
        self._piece = 0
        """Size of the piece of which the replica has not taken all: it is held as a whole."""
        self._rest: memoryview | None = None
        """Of a large body: what is not written yet."""
        self._abandoned = False
        self._paused = self._waits_turn = False
        """Nothing is read because the client takes nothing, or others are read first."""
        self._known = b""
        self._known_head: ResponseHead | None = None
        self._known_stop = 0
        """Where the body of a response with this head ends."""
        self._template: ResponseTemplate | None = None
        """Of heads that are like the known one."""
        self._tries = TRIES
        """How many more heads are looked at to find one that comes again."""
        self._ready: ResponseHead | None = None
        """The known head, while a response that may begin with it is waited for: to a complete request,
        not to HEAD."""

        # Of the request in hand.
        self.handler: ResponseHandler | None = None
        self.request_open = False
        """The request's body is not sent to its end: the connection cannot be used again."""
        self._answers_head = False
        self._reusable = True
        self._state = _HEAD
        self._partial: bytes | bytearray = b""
        self._remaining = 0
        self._decoder: ChunkedDecoder | None = None
        self._held_head: ResponseHead | None = None
        """That of a chunked body of which nothing has come yet; held until ``held_until`` at the latest."""
        self.held_until = 0.0
        self._passthrough: Passthrough | None = None
        """The handler's, while what comes next may be a whole chunk."""

    def __repr__(self) -> str:
        state = "idle" if self.handler is None else "busy"
        return f"<UpstreamConnection to {self.pool.authority.decode()} {state}>"

    # Called by the handler.

    def send(self, handler: ResponseHandler, request: bytes, answers_head: bool, request_open: bool) -> None:
        """Begin a request; more of its body follows while it is open. ``answers_head``: to HEAD."""
        self.handler = handler
        self._answers_head = answers_head
        self.request_open = request_open
        self._ready = None if answers_head or request_open else self._known_head
        write = self._write
        write(request)

    def send_more(self, piece: bytes, complete: bool) -> None:
        """More of the request's body, framed."""
        if complete:
            self.request_open = False
        if piece:
            self._write(piece)

    def send_large(self, body: bytes) -> None:
        """The whole body of the request, which nobody changes any more. It is written in slices, which take
        turns with those of other requests (:mod:`routing.http.read_turns`)."""
        if len(body) <= SLICE:
            self._write(body)
            return
        self._ready = None
        self._rest = memoryview(body)
        self._piece = len(body)
        self._send_slice()

    def _send_slice(self) -> None:
        rest, held = self._rest, self._piece
        if rest is None or self.write_paused or self.transport.is_closing():
            return
        self._rest = rest[SLICE:] if len(rest) > SLICE else None
        self._write(rest[:SLICE])
        # A slice keeps the whole body in memory.
        self._piece = held
        if self.write_paused:
            return
        if self._rest is not None:
            self.pool.turns.wait_to_send(self._send_slice)
        elif self.handler is not None:
            self.handler.replica_paused(False)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are held for the replica to take."""
        if self._rest is not None:
            return self._piece
        size = self.transport.get_write_buffer_size()
        return max(size, self._piece) if size else 0

    def abandon(self) -> None:
        """Nobody waits for this connection any more, whether it is open already or about to be."""
        self._abandoned = True
        if self.transport is not None:
            self.transport.abort()
            # A loop that has closed it by itself already does not say so.
            self.pool.closed(self)

    def pause(self) -> None:
        """Read no more for now: the client does not take it."""
        self._paused = True
        self.transport.pause_reading()

    def read_little(self) -> None:
        """Paused: from now on read small pieces. It serves no further request: that is to have large ones."""
        self._reusable = False
        self._ready = None
        if self.transport.get_protocol() is self:
            self.transport.set_protocol(SmallReads(self))

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if not self._waits_turn:
            self.transport.resume_reading()

    def close(self) -> None:
        """As :meth:`discard`, after what was sent. Its replica is given little time to take that."""
        self.handler = self._passthrough = None
        self.pool.writes.flush()
        if has_unsent(self.transport):
            asyncio.get_running_loop().call_later(_CLOSE_GRACE_S, abort_transport, self.transport)
        else:
            self.transport.close()

    def discard(self) -> None:
        """Close now, whatever is in flight; the handler hears nothing more."""
        self.handler = self._passthrough = None
        abort_transport(self.transport)

    def give_up(self, reason: str) -> None:
        """Take the replica for lost: as if the connection had broken."""
        self._lose(reason, not self._response_started)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        # As on the client's side. Not 0, at which uvloop's TLS would pause where nothing waits.
        self.transport.set_write_buffer_limits(high=1)
        self._write = partial(self.pool.writes.add, self.transport.write)
        self.pool.opened(self)
        if self._abandoned:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        handler = self.handler
        if handler is None:
            abort_transport(self.transport)
            return
        head = self._ready
        if head is not None:
            self._ready = None
            if len(data) == self._known_stop and data.startswith(self._known):
                begin = len(self._known)
                if head.undated:
                    head.date()
            elif self._template is not None:
                begin, head = self._template.recognise(data), self._template.head
            else:
                begin = 0
            if begin:
                now = monotonic()
                self.handler = None
                self.pool.release(self, now)
                handler.response(head, data[begin:], True, now)
                return
        elif (passthrough := self._passthrough) is not None:
            line = size_lines.get(len(data))
            if (line is not None and data.startswith(line) and data.endswith(b"\r\n")) or are_whole_chunks(
                data
            ):
                keep, write = passthrough
                keep(data)
                try:
                    write(data)
                except RuntimeError:
                    # That transport was closed meanwhile; the handler is about to be notified.
                    return
                if line is None and len(data) >= LARGE:  # no known line is of a large one
                    self._wait_turn()
                return
        try:
            if self._state == _HEAD:
                self._read_head(handler, data)
            else:
                self._read_body(handler, data)
        except (BadResponse, BadChunk) as error:
            self._lose(str(error), no_response_yet=False)
        if self.handler is not None and len(data) >= LARGE:
            self._wait_turn()

    def eof_received(self) -> None:
        if self.handler is not None and self._state == _UNTIL_CLOSE:
            handler = self.handler
            self.handler = None
            handler.data(b"", True, monotonic())
        else:
            self._lose(
                "the replica closed the connection before its answer was complete", not self._response_started
            )

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = None
        self._lose("the connection to the replica broke", not self._response_started)
        self.pool.closed(self)

    def pause_writing(self) -> None:
        self.write_paused = True
        self._piece = self.pool.writes.piece
        self._ready = None
        if self.handler is not None:
            self.handler.replica_paused(True)

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._rest is not None:
            self.pool.turns.wait_to_send(self._send_slice)
        if self.handler is not None:
            self.handler.replica_paused(False)

    def _wait_turn(self) -> None:
        """A large piece has come: others are read first (:mod:`routing.http.read_turns`)."""
        if not self._waits_turn and not self.transport.is_closing():
            self._waits_turn = True
            self.transport.pause_reading()
            self.pool.turns.wait_for_response(self._read_on)

    def _read_on(self) -> None:
        self._waits_turn = False
        if not self._paused and not self.transport.is_closing():
            self.transport.resume_reading()

    # Reading responses.

    @property
    def _response_started(self) -> bool:
        return self._state != _HEAD or bool(self._partial)

    def _read_head(self, handler: ResponseHandler, data: bytes) -> None:
        start = 0
        looked_at = len(self._partial)
        if looked_at:
            # A copy only once the end is here: pieces may be of one byte.
            self._partial += data
            if self._partial.find(HEAD_END, max(0, looked_at - 3)) < 0:
                _check_partial(self._partial, looked_at)
                return
            data = bytes(self._partial)
            self._partial = b""
        while True:
            position = data.find(HEAD_END, max(start, looked_at - 3)) + 4
            if position < 4:
                self._partial = bytearray(data[start:])
                _check_partial(self._partial, max(0, looked_at - start))
                return
            text = data[start:position]
            known = stream_heads.known_head(text)
            if known is not None:
                head = known
                break
            head, _ = parse_response_head(data, start)
            stream_heads.keep(text, head)
            if head.status >= 200:
                break
            if head.status == 101:
                self._switch(handler, head, text, data[position:])
                return
            start = position
            handler.informational(head)
        if head.load:
            # Told each time, also in the same words: such a head is not known by its bytes.
            if self.pool.on_load_report is not None:
                self.pool.on_load_report(head.load)
        elif head.plain and head.keep_alive and position - start < LONGEST:
            self._know(head, text)
        self._begin_body(handler, head, data, position)

    def _know(self, head: ResponseHead, text: bytes) -> None:
        """The next one may have the same head, or one that is like it."""
        self._known, self._known_head = text, head
        self._known_stop = len(text) + head.content_length
        if self._tries:
            self._tries -= 1
            found = template_of(text)
            if found is not None:
                self._template = found

    def _switch(self, handler: ResponseHandler, head: ResponseHead, text: bytes, first: bytes) -> None:
        if not handler.asks_for_web_socket or not switches_to_web_socket(text):
            raise BadResponse("the replica switched protocols without being asked")
        self._state = _UNTIL_CLOSE
        handler.switched(head, first, monotonic())

    def _begin_body(self, handler: ResponseHandler, head: ResponseHead, data: bytes, position: int) -> None:
        length = head.content_length
        if self._answers_head or head.status in (204, 304):
            length = 0
        elif head.chunked:
            self._state = _CHUNKED
            self._decoder = decoder = ChunkedDecoder()
            self._reusable = self._reusable and head.keep_alive
            piece = decoder.feed(data[position:])
            if not piece and not decoder.done:
                self._held_head = head
                self.pool.heads.hold(self, monotonic())
                return
            self._deliver_head(handler, head, piece, decoder.done, decoder.rest)
            self._expect_chunk(handler, decoder)
            return
        elif length < 0:
            self._state = _UNTIL_CLOSE
            handler.response(head, data[position:], False, monotonic())
            return
        self._reusable = self._reusable and head.keep_alive
        stop = position + length
        if stop <= len(data):
            self._deliver_head(handler, head, data[position:stop], True, data[stop:])
        else:
            self._state = _LENGTH
            self._remaining = stop - len(data)
            handler.response(head, data[position:], False, monotonic())

    def release_head(self, now: float) -> None:
        """Called by :class:`HeldHeads`: nothing has come of the body of the head that is held."""
        head, self._held_head = self._held_head, None
        self.held_until = 0.0
        handler, decoder = self.handler, self._decoder
        if head is not None and handler is not None and decoder is not None:
            handler.response(head, b"", False, now)
            self._expect_chunk(handler, decoder)

    def _deliver_head(
        self, handler: ResponseHandler, head: ResponseHead, body: bytes, complete: bool, rest: bytes
    ) -> None:
        now = monotonic()
        if complete:
            self._end(now, rest)
        handler.response(head, body, complete, now)

    def _read_body(self, handler: ResponseHandler, data: bytes) -> None:
        now = monotonic()
        if self._state == _UNTIL_CLOSE:
            handler.data(data, False, now)
            return
        if self._state == _LENGTH:
            piece = data[: self._remaining]
            self._remaining -= len(piece)
            complete = not self._remaining
            rest = data[len(piece) :]
        else:
            assert self._decoder is not None
            piece = self._decoder.feed(data)
            complete = self._decoder.done
            rest = self._decoder.rest
        if complete:
            self._end(now, rest)
        if piece or complete:
            head = self._held_head
            if head is None:
                handler.data(piece, complete, now)
            else:
                self._held_head = None
                self.held_until = 0.0
                handler.response(head, piece, complete, now)
        if self._decoder is not None:
            self._expect_chunk(handler, self._decoder)

    def _expect_chunk(self, handler: ResponseHandler, decoder: ChunkedDecoder) -> None:
        """Whole chunks pass as they are, if one may come now."""
        expected = decoder.between_chunks and self.handler is handler
        self._passthrough = handler.passthrough() if expected else None

    def _end(self, now: float, rest: bytes) -> None:
        """The response is complete: back to the pool, unless something speaks against it."""
        self.handler = None
        self._state = _HEAD
        self._decoder = self._passthrough = None
        if rest or not self._reusable or self.request_open or self.write_paused or self._rest is not None:
            abort_transport(self.transport)
        else:
            self.pool.release(self, now)

    def _lose(self, reason: str, no_response_yet: bool) -> None:
        handler = self.handler
        if handler is not None:
            self.handler = self._passthrough = None
            self.transport.abort()
            handler.lost(reason, no_response_yet)


def _check_partial(head: bytes | bytearray, looked_at: int) -> None:
    """``looked_at``: so much of it came before and was found good."""
    if len(head) > MAX_RESPONSE_HEAD:
        raise BadResponse("the response head is too long")
    if not head.startswith(b"HTTP/1."[: len(head)]) or BARE_LINE_FEED.search(head, looked_at):
        raise BadResponse("the response is not HTTP/1.1")
