"""Half-close: a client that has ended its sending side and still waits for its response.

Theory. TCP ends each direction apart (RFC 9293 §3.6), and a client may end its own once its request is sent.
To the proxy this looks like a full close: the end of the stream. Only later does the socket show the
difference. A client that is gone answers what is sent to it with a reset, which the kernel reports without
any reading; a half-closed client reads on. Where a fleet allows half-close, the end of the stream ends
nothing, but a reset does. The connection serves the requests that have come and is then closed.

Over TLS a ``close_notify`` (RFC 8446 §6.1) is a half-close, with a FIN or without.
"""


class EmptyBody:
    """Replaces a :class:`routing.http.request_body.RequestBody`: no further request follows, and the
    connection ends after the present response."""

    __slots__ = ()

    chunked = complete = False
    number = 0
    slow_since = None
    rest = b""
    received = 0

    def feed(self, data: bytes) -> bytes:
        return b""

    def is_slow(self, now: float) -> bool:
        return False

    def pause(self, now: float) -> None: ...

    def resume(self, now: float) -> None: ...
