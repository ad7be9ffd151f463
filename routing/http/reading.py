"""Reading that is stopped for one reason or several, and goes on when none is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from routing.http.hangup import HangupWatch

HELD, UPLOAD, ENDED = 1, 2, 4
"""Too many bytes of further requests are held; the replica takes the request's body slowly; nothing comes."""


class Reading:
    """The read side of one transport. While it is stopped, the peer's going is watched for."""

    __slots__ = ("_ended", "_gone", "_hangups", "_stopped", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        hangups: HangupWatch,
        ended: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        """While nothing is read ``ended`` is called when the peer has closed, or ended its direction, and
        ``gone`` when it has reset the connection after :meth:`watch_for_reset`."""
        self._transport = transport
        self._hangups = hangups
        self._ended = ended
        self._gone = gone
        self._stopped = 0

    def is_stopped(self, reason: int) -> bool:
        return bool(self._stopped & reason)

    def stop(self, reason: int) -> None:
        if not self._stopped and not self._transport.is_closing():
            self._transport.pause_reading()
            self._hangups.watch(self, self._transport.get_extra_info("socket").fileno(), self._ended)
        self._stopped |= reason

    def go_on(self, reason: int) -> None:
        if self._stopped:
            self._stopped &= ~reason
            if not self._stopped and not self._transport.is_closing():
                self._hangups.unwatch(self)
                self._transport.resume_reading()

    def watch_for_reset(self) -> None:
        """The peer has ended its direction, and may still take what is written."""
        self._hangups.unwatch(self)
        if not self._transport.is_closing():
            fd = self._transport.get_extra_info("socket").fileno()
            self._hangups.watch(self, fd, self._gone, only_reset=True)

    def end(self) -> None:
        """Everything is read, to the end of the peer's direction."""
        self._stopped |= ENDED
        self.watch_for_reset()

    def closed(self) -> None:
        """The transport is closed: its descriptor must not be watched any more."""
        self._hangups.unwatch(self)
