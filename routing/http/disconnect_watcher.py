"""Disconnect watcher: notices that a peer has gone while reading from it is paused.

While reading is paused, an event loop learns nothing from the socket: a close waits behind the unread bytes.
Linux reports the peer's close separately from data (``EPOLLRDHUP``). So paused sockets are registered in an
epoll instance of their own, and the loop watches that one descriptor. On other systems this does nothing, and
a close is seen when reading resumes.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable


class DisconnectWatcher:
    """Calls back once when a watched connection's peer has closed or reset it."""

    __slots__ = ("_callbacks", "_descriptors", "_epoll", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._descriptors: dict[object, int] = {}
        self._callbacks: dict[int, tuple[object, Callable[[], None]]] = {}

    def watch(self, owner: object, fd: int, gone: Callable[[], None], *, only_reset: bool = False) -> None:
        """``only_reset``: that the peer has ended its direction is known, and not what is waited for."""
        if not hasattr(select, "EPOLLRDHUP"):
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._ready)
        self._descriptors[owner] = fd
        self._callbacks[fd] = (owner, gone)
        # EPOLLHUP and EPOLLERR are always reported.
        self._epoll.register(fd, 0 if only_reset else select.EPOLLRDHUP)

    def unwatch(self, owner: object) -> None:
        """Must be called before the descriptor is closed. Nothing happens when it is not watched."""
        fd = self._descriptors.pop(owner, None)
        if fd is None or self._epoll is None:
            return
        del self._callbacks[fd]
        # A descriptor that is closed already has left the epoll instance by itself.
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)
        if not self._callbacks:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _ready(self) -> None:
        for fd, _ in self._epoll.poll(0) if self._epoll is not None else ():
            watched = self._callbacks.get(fd)
            if watched is not None:
                owner, gone = watched
                self.unwatch(owner)
                gone()
