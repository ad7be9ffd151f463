"""Interfaces between a client connection, the handler of its requests, and the acceptor of connections.

Handler and acceptor are of the layer above: the proxy's exchange, and the proxy. What these see of a
connection stands here too: an acceptor is given connections, which know it by its interface alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container
from typing import Protocol

from routing.contract.trusted_proxies import TrustedProxies
from routing.http.disconnect_watcher import DisconnectWatcher
from routing.http.errors import RequestRefused
from routing.http.known_heads import KnownHeads
from routing.http.limits import BodyLimits, ConnectionLimits
from routing.http.read_turns import ReadTurns
from routing.http.request_head import RequestHead
from routing.http.timeout_sweeper import TimeoutSweeper
from routing.http.write_batch import WriteBatch
from routing.http.write_tap import WriteListener


class Connection(Protocol):
    """One client's connection, or a TLS handshake with one, as the acceptor, of the layer above, sees it."""

    @property
    def idle_since(self) -> float | None:
        """``time.monotonic()`` seconds; ``None``: something is in flight, or has begun."""
        ...

    @property
    def silent_since(self) -> float | None:
        """When it was accepted, as ``time.monotonic()`` seconds; ``None``: something has come since."""
        ...

    @property
    def descriptor(self) -> int:
        """The number of the connection's descriptor."""
        ...

    @property
    def slow_since(self) -> float | None:
        """Since when its client has hardly taken or sent anything of what is in flight, as
        ``time.monotonic()`` seconds; ``None``: it keeps up."""
        ...

    def give_way(self, answer: bytes) -> None:
        """To make room: end, though a head has begun or something is in flight; with this response if none
        has begun."""

    def reject(self, answer: bytes) -> bool:
        """End with this response before any request has come; whether it can be sent now."""
        ...

    def close_if_idle(self) -> None:
        """Close between two requests, where no answer is lost by it."""

    def abort(self) -> None:
        """Cut it off."""


class Client(Connection, Protocol):
    """One client's connection, as exchanges and its host, of the layer above, see it."""

    exchange: RequestHandler | None
    """Of the request in hand."""
    write: Callable[[bytes], None]
    """Bytes of the answer; they go out at the end of the loop's turn."""
    peer: bytes
    """The address of who has connected, for X-Forwarded-For. Whose request it is:
    :func:`routing.proxy.exchange.client_address.client_address`."""
    trusts: TrustedProxies | None
    """Set by the host if ``peer`` is a trusted proxy."""
    forwarding_fields: bytes
    """What the host adds to the head of each request that it forwards, ready-made."""

    @property
    def head_s(self) -> float:
        """While an exchange begins: seconds that the request's head took, where it came in pieces."""
        ...

    @property
    def write_paused(self) -> bool:
        """Whether the client takes its answer slowly."""
        ...

    @property
    def busy(self) -> bool:
        """Whether closing now would cut off a request or an answer."""
        ...

    @property
    def request_is_complete(self) -> bool:
        """Whether nothing more of the present request is to come."""
        ...

    def unbatched_write(self) -> Callable[[bytes], None]:
        """As ``write``, without waiting for the end of the turn; for pieces of an answer that are small and
        come one by one. To be asked for anew after each use of ``write``: what that was given goes first."""
        ...

    def may_keep_alive(self, complete: bool) -> bool:
        """Whether the connection may be kept after the answer whose head is written now. ``complete``: the
        answer ends now as well."""
        ...

    def finish(self, now: float, keep: bool) -> None:
        """The answer is written to its end. ``keep``: the connection may serve another request."""

    def abort(self, reset: bool = False) -> None:
        """Cut the connection off, so that the client cannot take the answer for a whole one. ``reset``: where
        the connection's orderly end would be the answer's end."""

    def pause_body(self) -> None:
        """Read no more of the request's body for now."""

    def resume_body(self) -> None:
        """Read on."""

    def set_body_limits(self, limits: BodyLimits) -> None:
        """From now on these hold for what is still to come of the request's body."""

    def open_tunnel(self) -> None:
        """What the client sends from now on is no request: the exchange hears of it as of a body."""

    def drain(self, now: float, quiet_s: float) -> bool:
        """The server leaves: close once nothing has come for so long; whether it is to be waited for."""
        ...

    def tap_writes(self, exchange: object, listener: WriteListener) -> Callable[[], None]:
        """Tell ``listener`` of what ``exchange`` writes, before that is done, until it returns False. Returns
        what ends this for all listeners."""
        ...

    def clear_head_cache(self) -> None:
        """Read the next head anew, even if it is the same: what was concluded from it no longer holds."""


class RequestHandler(Protocol):
    """One request and its response, as a client connection sees it. Crosses a layer: the proxy's exchange is
    one."""

    def begin(self, body: bytes, complete: bool) -> None:
        """The head is read; ``body`` is what came with it."""

    def body(self, piece: bytes, complete: bool) -> None:
        """More of the body, chunked coding removed."""

    def refuse(self, error: RequestRefused) -> None:
        """The body breaks a rule or a limit: answer if nothing was, and finish. May come instead of
        :meth:`begin`."""

    @property
    def allows_half_close(self) -> bool:
        """Whether a client that ends its own direction is to get its answer all the same."""
        ...

    def recheck(self, narrowed: Container[object]) -> None:
        """What callers may do has changed: end the request if this one's may no longer do it. ``narrowed``:
        where less is open than before."""

    def client_gone(self) -> None:
        """The client left. Nothing must be written any more."""

    def client_paused(self, paused: bool) -> None:
        """The client takes its answer slowly (or keeps up again)."""

    def check(self, now: float) -> float:
        """Time passes: look at the time limits. Returns how many seconds the next look may wait; 0: none."""
        ...


class ClientHost(Protocol):
    """What a connection needs of its acceptor. Crosses a layer: the proxy is one."""

    limits: ConnectionLimits
    sweeper: TimeoutSweeper
    disconnects: DisconnectWatcher
    writes: WriteBatch
    turns: ReadTurns
    known_heads: KnownHeads
    acts: Counter[str]
    """How often a connection ended at a time limit, by reason."""
    draining: bool
    """Whether each connection is to be closed after its answer."""

    @property
    def head_timeout_s(self) -> float:
        """How long a head may take whose request is not known yet, or a new connection until it begins."""
        ...

    @property
    def body_limits(self) -> BodyLimits:
        """Of a request of which nothing is known yet."""
        ...

    def opened(self, client: Client) -> None: ...
    def on_half_head(self, client: Connection, size: int) -> None:
        """``size`` more bytes of a head have come, which is not complete."""

    def on_head(self, client: Connection) -> None:
        """A head that came in pieces is complete, or was refused."""

    def on_pipelined(self, client: Connection, size: int) -> None:
        """So many bytes of further requests are held until the present one is answered: more than are to be;
        0: no longer."""

    def on_untaken(self, client: Connection, size: int, since: float) -> None:
        """So many bytes of a response wait until the client takes them, which has made no progress since
        then; 0: none."""

    def closed(self, client: Client) -> None: ...
    @property
    def exchange(self) -> Callable[[Client, RequestHead], RequestHandler]:
        """Makes the exchange for a request head."""
        ...

    def refusal(self, error: RequestRefused, head_only: bool) -> bytes:
        """The whole answer to a head that was refused; it closes the connection. ``head_only``: to HEAD."""
        ...
