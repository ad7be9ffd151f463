"""Lingering close (as nginx's lingering_close): the end of a connection whose client may still be sending.

Theory. If a socket is closed with unread bytes in it, or bytes still come to it, the connection is reset. The
reset may destroy a response that the client has not read yet, or show it an error instead of a plain end (RFC
9112 §9.6). So the proxy ends its own direction first. Then it reads and drops what still comes, until the
client has closed its side too, or for a bounded time.
"""

from __future__ import annotations

import asyncio

from routing.http.limits import ConnectionLimits


class LingeringClose:
    """From the proxy's last write to the close. Times are ``time.monotonic()`` seconds."""

    __slots__ = ("_limits", "_moved_at", "_received", "_transport", "_untaken", "busy")

    def __init__(
        self, transport: asyncio.Transport, limits: ConnectionLimits, now: float, answered: bool
    ) -> None:
        """``answered``: an answer was written just now, which the client must have the time to read."""
        self._transport = transport
        self._limits = limits
        self._moved_at = now
        self._received = 0
        self._untaken = transport.get_write_buffer_size()
        self.busy = answered or self._untaken > 0
        """Whether closing now could destroy a response. If not, a reset would only meet a request that has
        not been accepted."""

    def drop(self, data: bytes) -> bool:
        """More has come; whether it is too much."""
        self._received += len(data)
        return self._received > self._limits.linger_bytes

    def is_over(self, now: float) -> bool:
        """Whether it is time to close. While the client takes its answer, the time has not begun."""
        untaken = self._transport.get_write_buffer_size()
        if untaken != self._untaken:
            self._untaken = untaken
            self._moved_at = now
        limit = self._limits.write_stall_s if untaken else self._limits.linger_s
        return now - self._moved_at > limit
