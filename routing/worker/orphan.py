"""Orphaned worker: serves on without its master, and passes its listener to the next one, which drains it."""

import asyncio
import logging
import socket
from collections.abc import Callable

from routing.ipc import listener_handover

log = logging.getLogger(__name__)


class Orphan:
    """``leave``: called once, with whether others accept from the listener."""

    def __init__(self, listener: socket.socket, leave: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._leave = leave
        self._control: socket.socket | None = None

    def open(self) -> None:
        """Wait for the next master. If no control socket can be opened, only a signal ends this worker."""
        try:
            host, port = self._listener.getsockname()[:2]
            self._control = listener_handover.open_control_socket((host, port))
        except OSError as problem:
            log.error("the next master will not find this worker: %s", problem)
        else:
            self._loop.add_reader(self._control, self._on_master)

    def close(self) -> None:
        """Give the listener to nobody any more."""
        if self._control is not None:
            self._loop.remove_reader(self._control)
            self._control.close()
            self._control = None

    def _on_master(self) -> None:
        assert self._control is not None
        try:
            connection, _ = self._control.accept()
        except OSError:
            return
        try:
            connection.setblocking(False)
            if listener_handover.peer_pid(connection) is None:
                raise PermissionError("of another user")
            listener_handover.send_listener(connection, self._listener)
        except OSError as problem:
            log.warning("somebody asked for the listener and did not get it: %s", problem)
            connection.close()
            return
        self._loop.add_reader(connection, self._on_command, connection)

    def _on_command(self, connection: socket.socket) -> None:
        try:
            command = connection.recv(listener_handover.MAX_COMMAND_BYTES)
        except BlockingIOError:
            return
        except OSError:
            command = b""
        if command in (listener_handover.DRAIN, listener_handover.DRAIN_FOLLOWED):
            self._leave(command == listener_handover.DRAIN_FOLLOWED)
        elif not command:
            # That master is gone too; another may come.
            self._loop.remove_reader(connection)
            connection.close()
