"""Orphan: what a worker does when its master was killed. It waits for the next one, which has it leave."""

import asyncio
import logging
import socket
from collections.abc import Callable

from routing.ipc import orphans

log = logging.getLogger(__name__)

WORDS_BYTES = 64


class Orphan:
    """``leave``: called once, with whether others accept from the listener."""

    def __init__(self, listener: socket.socket, leave: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._leave = leave
        self._door: socket.socket | None = None

    def open(self) -> None:
        """Wait for the next master. Without a door, when it cannot be opened: until a signal comes."""
        try:
            host, port = self._listener.getsockname()[:2]
            self._door = orphans.open_door((host, port))
        except OSError as problem:
            log.error("the next master will not find this worker: %s", problem)
        else:
            self._loop.add_reader(self._door, self._on_master)

    def close(self) -> None:
        """Give the listener to nobody any more."""
        if self._door is not None:
            self._loop.remove_reader(self._door)
            self._door.close()
            self._door = None

    def _on_master(self) -> None:
        assert self._door is not None
        try:
            connection, _ = self._door.accept()
        except OSError:
            return
        try:
            connection.setblocking(False)
            if orphans.pid_of_peer(connection) is None:
                raise PermissionError("of another user")
            orphans.send_listener(connection, self._listener)
        except OSError as problem:
            log.warning("somebody asked for the listener and did not get it: %s", problem)
            connection.close()
            return
        self._loop.add_reader(connection, self._on_words, connection)

    def _on_words(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(WORDS_BYTES)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said in (orphans.DRAIN, orphans.DRAIN_FOLLOWED):
            self._leave(said == orphans.DRAIN_FOLLOWED)
        elif not said:
            # That master is gone too; another may come.
            self._loop.remove_reader(connection)
            connection.close()
