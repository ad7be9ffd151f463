"""Half-close: a client that has ended its own direction and still waits for its answer.

Theory. TCP ends each direction apart (RFC 9293 §3.6), and a client may end its own once its request is sent.
What the proxy sees then is what it sees of a client that has closed altogether: the end of the stream. Only
later does the socket tell them apart. A client that is gone answers what is sent to it with a reset, which
the kernel reports without any reading; one that reads on takes its answer. Where a fleet allows half-close,
the end of the stream ends nothing, a reset does, and the connection serves what has come and is closed.

Over TLS a client ends its direction by a ``close_notify`` (RFC 8446 §6.1), with a FIN or without.
"""


class EmptyBody:
    """Stands where a :class:`routing.http.request_body.RequestBody` stood: nothing comes behind the request
    that is being served, and the connection ends with its answer."""

    __slots__ = ()

    complete = False
    rest = b""
    received = 0

    def feed(self, data: bytes) -> bytes:
        return b""

    def is_slow(self, now: float) -> bool:
        return False

    def pause(self, now: float) -> None: ...

    def resume(self, now: float) -> None: ...
