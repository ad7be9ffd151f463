"""Downstream connection: one client's connection, its requests one after another (keep-alive, pipelining).

Theory. A connection is in one of these states, which three fields distinguish:

========== ====== ======= ==========================================================
exchange   _body  _ending bytes that arrive are
========== ====== ======= ==========================================================
None       None   False   a request head, from its first byte or continued (``_partial``)
set        set    False   that request's body, or a tunnel's bytes
set        None   False   further requests, held until this one is answered
None       any    True    dropped: the last answer is written, the client still sends
========== ====== ======= ==========================================================

This module does not interpret requests. The host makes an *exchange* for each head. The exchange is notified
of body bytes, of a client disconnect, and of time passing. It writes its response through ``write`` and calls
``finish`` once. The ends of a connection, and its time limits, are in :mod:`routing.http.client_lifecycle`.

Clients tend to repeat a head byte for byte. The last one is kept (``_known``): if the next head has the same
bytes, it is not checked again. The usual request is begun in :meth:`ClientConnection.data_received` itself
(``_ready``): a known head and its whole body in one segment, on an idle connection. If heads differ only in
values such as a length or an id, a template recognises them (``_template``).

uvloop reports a client's close and its half-close alike, so either counts as a disconnect, unless the
request's fleet says otherwise (:mod:`routing.http.half_close`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import Final

from routing.contract.trusted_proxies import TrustedProxies
from routing.http.client_lifecycle import ClientLifecycle
from routing.http.deferred_chunks import DeferredChunks, are_small
from routing.http.errors import RequestRefused
from routing.http.half_close import EmptyBody
from routing.http.head_cache import MAX_CACHED_HEAD, HeadTemplate, build_template
from routing.http.interfaces import ClientHost
from routing.http.limits import BodyLimits
from routing.http.local_response import CONTINUE
from routing.http.partial_head import PartialHead
from routing.http.peer_address import peer_address
from routing.http.read_pause import BACKPRESSURE, DEFERRED, PIPELINE_FULL, TURN, ReadPause
from routing.http.read_turns import LARGE, PIPELINED_AT_ONCE
from routing.http.request_body import RequestBody
from routing.http.request_head import RequestHead
from routing.http.request_parser import parse_request_head
from routing.http.syntax import HEAD_END, LINE_END
from routing.http.tunnel_body import TunnelBody

_MOST_TEMPLATES: Final = 8
"""Made for one connection: heads that no template recognises so often are not alike at all."""


class ClientConnection(ClientLifecycle):
    """One client's connection. See the module's text for its states."""

    __slots__ = (
        "_deferred",
        "_held_at",
        "_known",
        "_known_head",
        "_known_stop",
        "_serving",
        "_template",
        "_templates_left",
        "forwarding_fields",
        "peer",
        "trusts",
    )

    def __init__(self, host: ClientHost) -> None:
        super().__init__(host)
        self.peer = b""
        """The address of who has connected, for X-Forwarded-For. Set before, if a load balancer says it."""
        self.trusts: TrustedProxies | None = None
        """Set if ``peer`` is a trusted proxy, which says whose requests it passes on."""
        self.forwarding_fields = b""
        """What the host adds to the head of each request that it forwards, ready-made."""
        self._known = b""
        self._known_head: RequestHead | None = None
        self._known_stop = 0
        """Where the body of a request with this head ends."""
        self._template: HeadTemplate | None = None
        """Of a head before, once the next one was another."""
        self._templates_left = _MOST_TEMPLATES
        self._held_at = 0
        """Where in ``_held`` the next request begins."""
        self._serving = False
        self._deferred: DeferredChunks | None = None
        """Read of the request's body, and not decoded yet."""

    def __repr__(self) -> str:
        state = "lingering" if self._lingering is not None else "idle" if self.exchange is None else "serving"
        return f"<ClientConnection {self.peer.decode()} {state}>"

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        # Bytes that the kernel does not take pause the other side: small pieces are expensive to buffer,
        # and the kernel buffers enough.
        self.transport.set_write_buffer_limits(high=0)
        self._read_pause = ReadPause(self.transport, self._host.disconnects, self._hung_up, self._gone)
        self.write = partial(self._host.writes.add, self.transport.write)
        if not self.peer:
            self.peer = peer_address(transport).encode() or b"unknown"
        self._since = monotonic()
        self._host.sweeper.add(self)
        self._host.opened(self)

    def data_received(self, data: bytes) -> None:
        head = self._ready
        if head is not None:
            stop = len(self._known)
            if len(data) != self._known_stop or not data.startswith(self._known):
                template = self._template
                head = None
                if template is not None:
                    head, stop = template.recognise(data, 0), template.end
                    if head is not None and stop + head.content_length != len(data):
                        head = None
        if head is not None:
            self._ready = None
            make = self._host.exchange
            self.exchange = exchange = make(self, head)
            self.deadline = 0.0
            exchange.begin(data[stop:], True)
        elif self.exchange is not None:
            if self._body is not None:
                self._receive(data)
            else:
                self._hold(data)
        elif self._ending:
            if self._lingering is not None and self._lingering.drop(data):
                self.transport.abort()
            elif len(data) >= LARGE:
                self._drop_in_turn()
        elif self._partial is not None:
            self._continue_head(data)
        else:
            self._serve(data, 0)

    def eof_received(self) -> bool:
        if self._still_reads():
            # The end of a TLS connection comes with its last bytes, whoever waits for a turn.
            while self._deferred is not None and not self._deferred.misses_turn:
                self._decode_on(self._deferred)
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ending = True
        self._host.sweeper.discard(self)
        self._read_pause.closed()
        exchange = self.exchange
        if exchange is not None:
            self.exchange = None
            exchange.client_gone()
        self._host.closed(self)

    def pause_writing(self) -> None:
        """No further request is begun now (see :meth:`_serve`): its answer would pile up behind this one."""
        self.clear_head_cache()
        super().pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._held and self.exchange is None and not self._serving:
            self._serve_held()

    # Called by the exchange.

    def finish(self, now: float, keep: bool) -> None:
        """The answer is written to its end. ``keep``: the connection may serve another request."""
        self.exchange = None
        self._since = now
        self.deadline = 0.0
        if not keep or self._body is not None:
            self._shut(now)
        elif not self._held:
            self._ready = self._known_head
        elif not self._serving:
            self._serve_held()

    def pause_body(self) -> None:
        """Read no more of the request's body for now."""
        if self._body is not None and not self._read_pause.is_paused(BACKPRESSURE):
            self._body.pause(monotonic())
            self._read_pause.pause(BACKPRESSURE)

    def resume_body(self) -> None:
        if self._body is not None and self._read_pause.is_paused(BACKPRESSURE):
            self._body.resume(monotonic())
        self._read_pause.resume(BACKPRESSURE)
        if self._deferred is not None and self._deferred.misses_turn and self._body is not None:
            self._deferred.misses_turn = False
            self._host.turns.wait(self._body.number, self._read_on, 0.0)

    def set_body_limits(self, limits: BodyLimits) -> None:
        """From now on these hold for what is still to come of the request's body."""
        if isinstance(self._body, RequestBody):
            self._body.limits = limits

    def open_tunnel(self) -> None:
        """What the client sends from now on is no request: the exchange hears of it as of a body."""
        exchange = self.exchange
        assert exchange is not None
        self._body = TunnelBody()
        held, self._held = self._held[self._held_at :], b""
        self._read_pause.resume(PIPELINE_FULL)
        self._host.on_pipelined(self, 0)
        if held:
            exchange.body(self._body.feed(held), False)

    # Called by the host.

    def clear_head_cache(self) -> None:
        self._known = b""
        self._known_head = self._ready = self._template = None

    # Reading requests.

    def _serve_held(self) -> None:
        held, position = self._held, self._held_at
        self._held = b""
        if len(held) - position <= self._limits.max_pipelined and self._read_pause.is_paused(PIPELINE_FULL):
            self._read_pause.resume(PIPELINE_FULL)
            self._host.on_pipelined(self, 0)
        self._serve(held, position)
        if self._is_half_closed and not ((self.write_paused or self._waits_turn) and self._held):
            self._begin_last()

    def _serve_on(self) -> None:
        """Its turn to have further requests answered has come."""
        self._waits_turn = False
        if self._held and self.exchange is None and not self._ending and not self.write_paused:
            self._serve_held()

    def _serve(self, data: bytes, position: int) -> None:
        """Begin the requests in ``data`` from ``position`` on, as long as each is answered at once."""
        self._serving = True
        length, left = len(data), PIPELINED_AT_ONCE
        try:
            while (
                position < length
                and self.exchange is None
                and not (self._ending or self.write_paused or self._waits_turn)
            ):
                self._ready = None
                if not left:
                    self._waits_turn = True
                    self._host.turns.wait_with_pipelined(self._serve_on)
                    break
                left -= 1
                known = self._known_head
                if known is not None and data.startswith(self._known, position):
                    position = self._begin(known, data, position + len(self._known))
                    continue
                template = self._template
                if template is not None:
                    head = template.recognise(data, position)
                    if head is not None:
                        position = self._begin(head, data, template.end)
                        continue
                end = data.find(HEAD_END, position)
                if end > position:
                    while data.startswith(LINE_END, position):
                        position += 2
                    if end - position < MAX_CACHED_HEAD:
                        head = self._read_head(data, position, end)
                    else:
                        head = parse_request_head(data, position, end, self._limits)
                    self._is_new = False
                    position = self._begin(head, data, end + 4)
                elif data.startswith(LINE_END, position):
                    position += 2
                else:
                    self._keep_partial(data[position:])
                    return
        except RequestRefused as error:
            self._refuse(error, data[position : position + 64])
            return
        finally:
            self._serving = False
        if position < length and not self._ending:
            self._hold(data, position)

    def _begin(self, head: RequestHead, data: bytes, position: int) -> int:
        """Hand one request to the host; returns where the next one begins."""
        stop = position + head.content_length
        if stop <= len(data) and not head.chunked:
            self.exchange = exchange = self._host.exchange(self, head)
            self.deadline = 0.0
            exchange.begin(data[position:stop], True)
            self.head_s = 0.0
            return stop
        self._body = body = RequestBody(head, self._host.body_limits, monotonic())
        self.exchange = exchange = self._host.exchange(self, head)
        self.deadline = 0.0
        came = data[position:]
        if head.chunked and are_small(came):
            exchange.begin(b"", False)
            if self._body is body and not self._ending:
                self._defer(body, came)
            return len(data)
        try:
            piece = body.feed(came)
        except RequestRefused as error:
            exchange.refuse(error)
            return len(data)
        if body.complete:
            self._body = None
            exchange.begin(piece, True)
            return len(data) - len(body.rest)
        exchange.begin(piece, False)
        if head.expects_continue and not piece and self.exchange is exchange:
            # Not through ``write``: whoever listens there hears what the exchange writes.
            self._host.writes.add(self.transport.write, CONTINUE)
        if len(data) >= LARGE and self._body is body:
            self._wait_turn(body, 0.0)
        return len(data)

    def _read_head(self, data: bytes, position: int, end: int) -> RequestHead:
        """That of one that is remembered. Raises :class:`RequestRefused`."""
        text = data[position : end + 4]
        heads = self._host.known_heads
        head = heads.find(text)
        if head is None:
            head = parse_request_head(data, position, end, self._limits)
            heads.keep(text, head)
        self._remember(head, text)
        return head

    def _remember(self, head: RequestHead, text: bytes) -> None:
        if not head.chunked:
            if self._known_head is not None and self._templates_left:
                self._templates_left -= 1
                self._template = build_template(text, head, self._known, self._template, self._limits)
            self._known = text
            self._known_head = head
            self._known_stop = len(text) + head.content_length

    def _keep_partial(self, data: bytes) -> None:
        """Raises :class:`RequestRefused`."""
        self._partial = PartialHead(self._limits)
        self._since = monotonic()
        self.deadline = 0.0
        self._partial.add(data)
        self._host.on_half_head(self, len(data))

    def _continue_head(self, data: bytes) -> None:
        partial = self._partial
        assert partial is not None
        try:
            collected = partial.add(data)
        except RequestRefused as error:
            self._refuse(error, partial.beginning)
            return
        if collected is None:
            self._host.on_half_head(self, len(data))
        else:
            self._partial = None
            self._host.on_head(self)
            self.head_s = monotonic() - self._since
            self._serve(collected, 0)
            self.head_s = 0.0

    def _receive(self, data: bytes, behind: DeferredChunks | None = None) -> None:
        """Bytes of the body of the request that is being served, or of a tunnel. ``behind``: what was read
        with them and is not decoded yet."""
        body, exchange = self._body, self.exchange
        assert body is not None
        assert exchange is not None
        if behind is None and body.chunked and are_small(data):
            self._defer(body, data)
            return
        began = monotonic() if behind is not None or len(data) >= LARGE else 0.0
        try:
            piece = body.feed(data)
        except RequestRefused as error:
            if behind is not None:
                self._end_deferred()
            exchange.refuse(error)
            return
        if not body.complete:
            if piece:
                exchange.body(piece, False)
            if began and self._body is body:
                if behind is not None and not behind.left:
                    self._end_deferred()
                else:
                    self._wait_turn(body, monotonic() - began)
            return
        self._body = None
        rest = body.rest
        if behind is not None:
            rest += behind.take_rest()
            self._end_deferred()
        self._read_pause.resume(BACKPRESSURE)
        if rest:
            self._hold(rest)
        exchange.body(piece, True)
        if began:
            self._host.turns.spend(monotonic() - began)

    def _wait_turn(self, body: RequestBody | TunnelBody | EmptyBody, spent_s: float) -> None:
        """A piece that takes long has come, on which ``spent_s`` was spent: others are read first."""
        if self._deferred is None:
            self._read_pause.pause(TURN)
        self._host.turns.wait(body.number, self._read_on, spent_s)

    def _read_on(self) -> None:
        """Its turn has come."""
        if self._deferred is None:
            self._read_pause.resume(TURN)
        else:
            self._decode_on(self._deferred)

    def _defer(self, body: RequestBody | TunnelBody | EmptyBody, data: bytes) -> None:
        """Decode this in turns. Until it is done nothing more is read."""
        self._deferred = DeferredChunks(data)
        self._host.on_pipelined(self, len(data))
        self._read_pause.pause(DEFERRED)
        self._wait_turn(body, 0.0)

    def _decode_on(self, deferred: DeferredChunks) -> None:
        if self._body is None or self.exchange is None or self._ending:
            self._end_deferred()
        elif self._read_pause.is_paused(BACKPRESSURE):
            deferred.misses_turn = True
        else:
            self._receive(deferred.take(), deferred)

    def _linger(self, now: float, answered: bool) -> None:
        super()._linger(now, answered)
        if self._deferred is not None:
            self._end_deferred()

    def _end_deferred(self) -> None:
        self._deferred = None
        self._host.on_pipelined(self, 0)
        self._read_pause.resume(DEFERRED)

    def _hold(self, data: bytes, position: int = 0) -> None:
        """Keep bytes of further requests until the present one is answered."""
        if self._held:
            self._held = self._held[self._held_at :] + data[position:]
            self._held_at = 0
        else:
            self._held = data
            self._held_at = position
        if len(self._held) - self._held_at > self._limits.max_pipelined:
            self._read_pause.pause(PIPELINE_FULL)
            self._host.on_pipelined(self, len(self._held))
