"""Client connection lifecycle, apart from the requests on it: its time limits, and all the ways it ends.

A connection ends in one of these cases: the client disconnects; it was idle for too long; a request is
refused so that the start of the next cannot be found; after the last response; between two requests, when the
server drains. If the client may still be sending, the close lingers: see :mod:`routing.http.lingering_close`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from time import monotonic
from typing import Final

from routing.http.abort import abort_transport
from routing.http.errors import RequestRefused
from routing.http.half_close import EmptyBody
from routing.http.interfaces import ClientHost, RequestHandler
from routing.http.lingering_close import LingeringClose
from routing.http.partial_head import PartialHead
from routing.http.read_pause import BACKPRESSURE, PIPELINE_FULL, TURN, ReadPause
from routing.http.request_body import RequestBody
from routing.http.request_head import RequestHead
from routing.http.tunnel_body import TunnelBody
from routing.http.unread_bytes import has_unread
from routing.http.write_tap import WriteListener, WriteTap

LOOK_AGAIN_S = 1.0
WRITE_STALL: Final = "write_stall"
BODY_TIMEOUT: Final = "body_timeout"
HEAD_TIMEOUT: Final = "head_timeout"
"""Time limits, as they are counted."""
TAKEN_BYTES: Final = 16_384
"""A client that takes less of a response than this has made no progress: one byte a minute is too little."""
KEEPS_UP_S: Final = 1.0
"""A client that could be written to for so long keeps up."""

_TO_HEAD: Final = re.compile(rb"(?:\r\n)*+HEAD ")


class ClientLifecycle(asyncio.Protocol):
    """The part of :class:`routing.http.client_connection.ClientConnection` that does not read requests."""

    __slots__ = (
        "_body",
        "_ending",
        "_held",
        "_host",
        "_is_half_closed",
        "_is_new",
        "_limits",
        "_lingering",
        "_partial",
        "_piece",
        "_read_pause",
        "_ready",
        "_resumed_at",
        "_since",
        "_slow_since",
        "_taken",
        "_untaken",
        "_waits_turn",
        "_write_paused_at",
        "deadline",
        "exchange",
        "head_s",
        "transport",
        "write",
    )

    def __init__(self, host: ClientHost) -> None:
        # Of the connection.
        self._host = host
        self._limits = host.limits
        self._is_new = True
        """No request has come yet."""
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.write: Callable[[bytes], None] = None  # type: ignore[assignment]
        """The transport's, at the end of the loop's turn."""
        self.deadline = 0.0
        self._since = 0.0
        """Idle or in an incomplete head since."""
        self._read_pause: ReadPause
        self._write_paused_at = 0.0
        """Since when the client has taken next to nothing, while it does not keep up."""
        self._slow_since = self._resumed_at = 0.0
        """The same, also when it has just caught up; and when it has done so."""
        self._taken = 0
        """Bytes that it has taken since."""
        self._untaken = 0
        """Bytes of answers that it has not taken, when last looked at."""
        self._piece = 0
        """Size of the piece of which those are the rest: it is held as a whole."""
        self._ending = False
        """No further request is served."""
        self._is_half_closed = False
        """The client has ended its direction, and still reads."""
        self._lingering: LingeringClose | None = None
        """Set once nothing more is written."""

        # Of the bytes not yet given to anyone.
        self._ready: RequestHead | None = None
        """The known head, while the connection is idle and holds nothing."""
        self.head_s = 0.0
        """How long the head took that is being handed on, where it came in pieces."""
        self._partial: PartialHead | None = None
        self._held = b""
        self._waits_turn = False
        """Whether further requests are answered when others have been read."""

        # Of the request that is being served.
        self.exchange: RequestHandler | None = None
        self._body: RequestBody | TunnelBody | EmptyBody | None = None
        """Set while more of the request's body is to come, in a tunnel, and where nothing comes any more."""

    # Called by the event loop.

    def eof_received(self) -> bool:
        if self._still_reads():
            self._is_half_closed = True
            self._read_pause.end()
            self._begin_last()
            return self.exchange is not None
        if self._waits_turn and self.transport.can_write_eof():
            self._is_half_closed = True
            self._read_pause.end()
            return True
        self._gone()
        return False

    def pause_writing(self) -> None:
        now = monotonic()
        if not self._slow_since or now - self._resumed_at > KEEPS_UP_S:
            self._slow_since, self._taken = now, 0
        self._write_paused_at = self._slow_since
        self._untaken = self.transport.get_write_buffer_size()
        self._piece = self._host.writes.piece
        self._host.on_untaken(self, max(self._untaken, self._piece), self._slow_since)
        self.deadline = 0.0
        if self.exchange is not None:
            self.exchange.client_paused(True)

    def resume_writing(self) -> None:
        self._write_paused_at = 0.0
        self._resumed_at = monotonic()
        self._host.on_untaken(self, 0, 0.0)
        self._taken += self._untaken
        if self._taken >= TAKEN_BYTES:
            self._slow_since = 0.0
        if self.exchange is not None:
            self.exchange.client_paused(False)
        elif self._partial is None:
            self._since = monotonic()

    # Called by the exchange.

    @property
    def write_paused(self) -> bool:
        return self._write_paused_at > 0.0

    @property
    def request_is_complete(self) -> bool:
        """Whether nothing more of the present request is to come."""
        return self._body is None

    def unbatched_write(self) -> Callable[[bytes], None]:
        """As ``write``, but at once; it may raise RuntimeError once the transport is closed."""
        self._host.writes.flush()
        tap = self.write
        return tap.over(self.transport.write) if isinstance(tap, WriteTap) else self.transport.write

    def may_keep_alive(self, complete: bool) -> bool:
        """Whether the connection may be kept after the answer whose head is written now. ``complete``: the
        answer ends now as well."""
        ends = self._body is not None and (complete or self._is_half_closed)
        return not self._host.draining and not ends

    def abort(self, reset: bool = False) -> None:
        """Cut the connection off, so that the client cannot take the answer for a whole one. ``reset``: where
        the connection's orderly end would be the answer's end."""
        self.exchange = None
        self._ending = True
        self._host.writes.flush()
        if reset:
            abort_transport(self.transport, reset=True)
        else:
            self.transport.abort()

    def tap_writes(self, exchange: object, listener: WriteListener) -> Callable[[], None]:
        """Tell ``listener`` of what ``exchange`` writes, before that is done, until it returns False. Returns
        what ends this for all listeners."""
        tap = self.write
        if not isinstance(tap, WriteTap) or tap.exchange is not exchange:
            self.write = tap = WriteTap(self, exchange)
        tap.add(listener)
        return tap.end

    # Called by the host and the sweeper.

    @property
    def busy(self) -> bool:
        """Whether closing now would cut off a request or an answer."""
        if self._lingering is not None:
            return self._lingering.busy
        return self.exchange is not None or self._partial is not None or self._ending

    @property
    def idle_since(self) -> float | None:
        """``time.monotonic()`` seconds; ``None``: something is in flight, or has begun."""
        if self.exchange is not None or self._partial is not None or self._ending:
            return None
        # An answer that the client has not taken yet is in flight.
        return None if self.transport.get_write_buffer_size() else self._since

    @property
    def silent_since(self) -> float | None:
        """See :class:`routing.http.interfaces.Connection`."""
        return self.idle_since if self._is_new else None

    @property
    def descriptor(self) -> int:
        """The number of the connection's descriptor."""
        number: int = self.transport.get_extra_info("socket").fileno()
        return number

    def reject(self, answer: bytes) -> bool:
        """End with this answer before any request has come."""
        self.write(answer)
        self._linger(monotonic(), answered=True)
        return True

    def close_if_idle(self) -> None:
        """To make room: between two requests, no answer is lost by closing."""
        if self.exchange is None and self._partial is None and not self._ending:
            self._linger(monotonic(), answered=False)

    @property
    def slow_since(self) -> float | None:
        """See :class:`routing.http.interfaces.Connection`."""
        if self._lingering is not None or self._ending:
            return None
        if self._write_paused_at:
            return self._write_paused_at
        return self._body.slow_since if self.exchange is not None and self._body is not None else None

    def give_way(self, answer: bytes) -> None:
        """To make room: see :class:`routing.http.interfaces.Connection`."""
        exchange = self.exchange
        if self._partial is not None:
            self._partial = None
            self.reject(answer)
        elif self._write_paused_at:
            if exchange is None:
                abort_transport(self.transport)
            else:
                self._gone()
        elif exchange is not None and self._body is not None:
            exchange.refuse(RequestRefused(408, "body_timeout", "the request body arrived too slowly"))
        elif exchange is not None:
            self._gone()

    def drain(self, now: float, quiet_s: float) -> bool:
        """While the server leaves, again and again: close once nothing has come for so long; whether the
        connection is still to be waited for.

        Whoever has just connected, or had an answer that did not say that it was the last, may be sending a
        request at this moment; what has reached the kernel is served.
        """
        if self.exchange is None and self._partial is None and not self._ending:
            if now - self._since < quiet_s or has_unread(self.descriptor):
                return True
            self._linger(now, answered=False)
        return self.busy

    def check(self, now: float) -> None:
        exchange = self.exchange
        if self._write_paused_at and self._lingering is None and self._takes_nothing(now):
            self._host.acts[WRITE_STALL] += 1
            if exchange is None:
                abort_transport(self.transport)
            else:
                self._gone()
        elif exchange is None:
            self._check_idle(now)
        elif self._body is not None and self._body.is_slow(now):
            self._host.acts[BODY_TIMEOUT] += 1
            exchange.refuse(RequestRefused(408, "body_timeout", "the request body arrived too slowly"))
        else:
            wait_s = exchange.check(now)
            if wait_s and self._body is None and self.exchange is exchange:
                self.deadline = now + wait_s

    def _takes_nothing(self, now: float) -> bool:
        """Whether the client has taken next to nothing of its answer for too long."""
        untaken = self.transport.get_write_buffer_size()
        self._taken += max(0, self._untaken - untaken)
        self._untaken = untaken
        if self._taken >= TAKEN_BYTES:
            self._taken = 0
            self._slow_since = self._write_paused_at = now
        self._host.on_untaken(self, max(untaken, self._piece) if untaken else 0, self._write_paused_at)
        return now - self._write_paused_at > self._limits.write_stall_s

    def _check_idle(self, now: float) -> None:
        if self._lingering is not None:
            if self._lingering.is_over(now):
                abort_transport(self.transport)
            return
        if self._write_paused_at:
            return  # It is still taking an answer.
        awaits_head = self._is_new or self._partial is not None
        limit = self._host.head_timeout_s if awaits_head else self._limits.keep_alive_s
        self.deadline = self._since + limit
        if now < self.deadline:
            if awaits_head:
                # Meanwhile the limit may change.
                self.deadline = min(self.deadline, now + LOOK_AGAIN_S)
            return
        if self._ending or self.transport.get_write_buffer_size():
            abort_transport(self.transport)
        elif self._partial is not None:
            self._host.acts[HEAD_TIMEOUT] += 1
            error = RequestRefused(408, "head_timeout", "the request head was not complete in time")
            self._refuse(error, self._partial.beginning)
        elif not has_unread(self.descriptor):
            self._linger(now, answered=False)

    # Ending.

    def _shut(self, now: float) -> None:
        """The last answer is written. While draining, the client does not know yet that it was the last."""
        if not self._is_half_closed and (self._body is not None or self._held or self._host.draining):
            self._linger(now, answered=True)
        else:
            self._ending = True
            self._ready = None
            self._read_pause.closed()
            self._host.writes.flush()
            self.transport.close()

    def _refuse(self, error: RequestRefused, begun: bytes) -> None:
        """Answer a request whose head cannot be accepted. ``begun``: the head, or how it begins."""
        self._partial = None
        self._host.on_head(self)
        self.write(self._host.refusal(error, _TO_HEAD.match(begun) is not None))
        self._linger(monotonic(), answered=True)

    def _linger(self, now: float, answered: bool) -> None:
        """End after what is written, with a FIN, and close a while later."""
        self._ending = True
        self._ready = None
        body, self._body = self._body, None
        self._held = b""
        self.deadline = 0.0
        if body is not None:
            self._drop_in_turn()
        self._read_pause.resume(PIPELINE_FULL | BACKPRESSURE)
        self._host.writes.flush()
        if not self.transport.is_closing():
            self._lingering = LingeringClose(self.transport, self._limits, now, answered)
            self.transport.write_eof()

    def _drop_in_turn(self) -> None:
        """What still comes is not wanted: others are read first."""
        if not self._read_pause.is_paused(TURN):
            self._read_pause.pause(TURN)
            self._host.turns.wait_to_drop(self._drop_on)

    def _drop_on(self) -> None:
        """Its turn has come."""
        self._read_pause.resume(TURN)

    def _still_reads(self) -> bool:
        """Whether a client that has ended its direction is taken for one that waits for its answer."""
        exchange = self.exchange
        return exchange is not None and exchange.allows_half_close and self.transport.can_write_eof()

    def _hung_up(self) -> None:
        """The end of the client's direction waits behind what is not read yet."""
        if self._waits_turn or self._still_reads():
            self._read_pause.watch_for_reset()
        else:
            self._gone()

    def _begin_last(self) -> None:
        """Half-closed: where nothing is held the connection ends with the request that is being served."""
        if self._body is None and self._still_reads():
            if not self._held:
                self._body = EmptyBody()
            return
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            # Not complete, or of a fleet that does not allow it. What was answered before still goes out.
            exchange.client_gone()
        self._gone()

    def _gone(self) -> None:
        self._ending = True
        self._read_pause.closed()
        exchange = self.exchange
        if exchange is None:
            self._host.writes.flush()
            self.transport.close()
        else:
            self.exchange = None
            exchange.client_gone()
            abort_transport(self.transport)
