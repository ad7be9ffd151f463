"""What a client connection and whoever accepts it ask of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from routing.http.errors import RequestRefused
from routing.http.hangup import HangupWatch
from routing.http.limits import Limits
from routing.http.request_head import RequestHead
from routing.http.sweep import Sweeper
from routing.http.write_batch import WriteBatch

if TYPE_CHECKING:
    from routing.http.client import ClientConnection


class Exchange(Protocol):
    """One request and its answer, as a client connection sees it."""

    def begin(self, body: bytes, complete: bool) -> None:
        """The head is read; ``body`` is what came with it."""

    def body(self, piece: bytes, complete: bool) -> None:
        """More of the body, chunked coding removed."""

    def refuse(self, error: RequestRefused) -> None:
        """The body breaks a rule or a limit: answer if nothing was, and finish. May come instead of
        :meth:`begin`."""

    def client_gone(self) -> None:
        """The client left. Nothing must be written any more."""

    def client_paused(self, paused: bool) -> None:
        """The client takes its answer slowly (or keeps up again)."""

    def check(self, now: float) -> None:
        """Time passes: look at the time limits."""


class ClientHost(Protocol):
    """What a connection needs of whoever accepts connections."""

    limits: Limits
    sweeper: Sweeper
    hangups: HangupWatch
    writes: WriteBatch
    draining: bool
    """Whether each connection is to be closed after its answer."""

    def opened(self, client: ClientConnection) -> None: ...
    def closed(self, client: ClientConnection) -> None: ...
    @property
    def exchange(self) -> Callable[[ClientConnection, RequestHead], Exchange]:
        """Makes the exchange for a request head."""
        ...

    def refusal(self, error: RequestRefused) -> bytes:
        """The whole answer to a head that was refused; it closes the connection."""
        ...
