"""Read pause: backpressure on a socket's read side, for one reason or several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from routing.http.disconnect_watcher import DisconnectWatcher

PIPELINE_FULL: Final = 1
BACKPRESSURE: Final = 2
END_OF_STREAM: Final = 4
TURN: Final = 8
DEFERRED: Final = 16
"""Too many bytes of further requests are held; the replica takes the request's body slowly, or there is no
memory for it; nothing comes; others are read first, for a moment in which nobody watches for a disconnect;
what was read before is not decoded yet."""


class ReadPause:
    """The read side of one transport. While it is paused, a disconnect of the peer is watched for."""

    __slots__ = ("_disconnects", "_ended", "_gone", "_paused_for", "_transport")

    def __init__(
        self,
        transport: asyncio.Transport,
        disconnects: DisconnectWatcher,
        ended: Callable[[], None],
        gone: Callable[[], None],
    ) -> None:
        """While nothing is read ``ended`` is called when the peer has closed, or ended its direction, and
        ``gone`` when it has reset the connection after :meth:`watch_for_reset`."""
        self._transport = transport
        self._disconnects = disconnects
        self._ended = ended
        self._gone = gone
        self._paused_for = 0

    def is_paused(self, reason: int) -> bool:
        return bool(self._paused_for & reason)

    def pause(self, reason: int) -> None:
        before = self._paused_for
        self._paused_for |= reason
        if self._transport.is_closing():
            return
        if not before:
            self._transport.pause_reading()
        if before in (0, TURN) and reason != TURN:
            self._disconnects.watch(self, self._transport.get_extra_info("socket").fileno(), self._ended)

    def resume(self, reason: int) -> None:
        before = self._paused_for
        if before & reason:
            self._paused_for = left = before & ~reason
            if left in (0, TURN) and not self._transport.is_closing():
                self._disconnects.unwatch(self)
                if not left:
                    self._transport.resume_reading()

    def watch_for_reset(self) -> None:
        """The peer has ended its direction, and may still take what is written."""
        self._disconnects.unwatch(self)
        if not self._transport.is_closing():
            fd = self._transport.get_extra_info("socket").fileno()
            self._disconnects.watch(self, fd, self._gone, only_reset=True)

    def end(self) -> None:
        """Everything is read, to the end of the peer's direction."""
        self._paused_for |= END_OF_STREAM
        self.watch_for_reset()

    def closed(self) -> None:
        """The transport is closed: its descriptor must not be watched any more."""
        self._disconnects.unwatch(self)
