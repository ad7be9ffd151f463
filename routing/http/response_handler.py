"""Response handler: the callbacks of an upstream connection to the sender of a request."""

from collections.abc import Callable
from typing import Protocol

from routing.http.response_head import ResponseHead

Passthrough = tuple[Callable[[bytes], object], Callable[[bytes], object]]
"""A way past the handler for more of a body, not its end: who keeps it, and who is given it then, at once.
These are whole chunks, mostly one, as :func:`routing.http.chunked.encode_chunk` makes them, in either case
of letter."""


class ResponseHandler(Protocol):
    """The sender of the request. Crosses a layer: the proxy's exchange is one. For this request it gets no
    further call after ``complete`` or ``lost``."""

    @property
    def asks_for_web_socket(self) -> bool:
        """Whether the replica may switch protocols."""
        ...

    def informational(self, head: ResponseHead) -> None:
        """A 1xx other than 101; the final response follows."""

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        """The final head and what came with it, chunked coding removed."""

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        """101: from here on bytes are forwarded as they come, beginning with ``first``; :meth:`data` gets the
        next ones, and the end when the replica has closed."""

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        """More of the body; ``piece`` may be empty only when complete."""

    def passthrough(self) -> Passthrough | None:
        """Called after the final head and before the end of the body: the receiver of whole chunks, instead
        of :meth:`data`, until that is called again. ``None``: no other."""
        ...

    def lost(self, reason: str, no_response_yet: bool) -> None:
        """The connection broke or its bytes are invalid. ``no_response_yet``: no byte came before."""

    def waiting_since(self) -> tuple[float, float, float] | None:
        """When the request was sent, when something last happened, and how much work it is estimated to be;
        ``None``: silence says nothing here, for the client is still sending, or the connection has become a
        tunnel."""

    def replica_lost(self, reason: str, *, in_any_case: bool) -> None:
        """The replica is taken to be lost. ``in_any_case``: also if the request can then only fail."""

    def taken_for_lost(self) -> None:
        """The request is most likely lost, though the replica is not. It goes on waiting, but is no load."""

    def replica_paused(self, paused: bool) -> None:
        """The replica takes the request body slowly (or keeps up again)."""
