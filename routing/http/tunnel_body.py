"""Tunnel: what a client sends after an upgrade (WebSocket), bytes without an end of their own."""


class TunnelBody:
    """Replaces a :class:`routing.http.request_body.RequestBody` and lets everything through."""

    __slots__ = ("received",)

    chunked = complete = False
    number = 0
    slow_since = None
    rest = b""

    def __init__(self) -> None:
        self.received = 0
        """Bytes so far."""

    def feed(self, data: bytes) -> bytes:
        self.received += len(data)
        return data

    def is_slow(self, now: float) -> bool:
        """Never: in a tunnel silence is usual, and its limit is the fleet's."""
        return False

    def pause(self, now: float) -> None: ...

    def resume(self, now: float) -> None: ...
