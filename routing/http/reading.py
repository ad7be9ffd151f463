"""Reading that is stopped for one reason or several, and goes on when none is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from routing.http.hangup import HangupWatch

HELD, UPLOAD = 1, 2
"""Too many bytes of further requests are held; the replica takes the request's body slowly."""


class Reading:
    """The read side of one transport. While it is stopped, the peer's going is watched for."""

    __slots__ = ("_gone", "_hangups", "_stopped", "_transport")

    def __init__(self, transport: asyncio.Transport, hangups: HangupWatch, gone: Callable[[], None]) -> None:
        self._transport = transport
        self._hangups = hangups
        self._gone = gone
        self._stopped = 0

    def is_stopped(self, reason: int) -> bool:
        return bool(self._stopped & reason)

    def stop(self, reason: int) -> None:
        if not self._stopped and not self._transport.is_closing():
            self._transport.pause_reading()
            self._hangups.watch(self, self._transport.get_extra_info("socket").fileno(), self._gone)
        self._stopped |= reason

    def go_on(self, reason: int) -> None:
        if self._stopped:
            self._stopped &= ~reason
            if not self._stopped and not self._transport.is_closing():
                self._hangups.unwatch(self)
                self._transport.resume_reading()

    def closed(self) -> None:
        """The transport is closed: its descriptor must not be watched any more."""
        self._hangups.unwatch(self)
