"""Orphaned workers, of a master that was killed: the next one takes over their listeners, then drains them.

No connection is refused and none in flight is cut: the orphans accept and serve until the new master's
workers accept from the same listeners.
"""

import logging
import os
import signal
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from routing.ipc import listener_handover
from routing.master.listeners import BindAddress, is_taken, resolved

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 5.0
"""An orphan that says nothing for so long is stuck, and killed."""
NOTICE_S = 1.0
"""How soon a worker has noticed that its master is gone."""
POLL_EVERY_S = 0.05


class OrphanedWorker(NamedTuple):
    pid: int
    listener: socket.socket
    channel: socket.socket


class OrphanedWorkers:
    """Those that one master has found."""

    def __init__(self, found: Sequence[OrphanedWorker] = ()) -> None:
        self._found = list(found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def listeners(self) -> list[socket.socket]:
        """Each once: workers may share one."""
        return list({_inode(one.listener): one.listener for one in self._found}.values())

    def drain(self, listeners: Collection[socket.socket], followed: bool) -> None:
        """Have them accept no more and finish. ``listeners``: this master's. ``followed``: its workers accept
        from them."""
        ours = {_inode(listener) for listener in listeners}
        for one in self._found:
            shared = followed and _inode(one.listener) in ours
            with suppress(OSError):
                one.channel.send(listener_handover.DRAIN_FOLLOWED if shared else listener_handover.DRAIN)
            one.channel.close()
            log.info("worker process %d of the master that was killed finishes its requests", one.pid)
            if one.listener not in listeners:
                one.listener.close()
        self._found.clear()


def find(address: BindAddress, wait: bool = False) -> OrphanedWorkers:
    """Those that listen on this address. ``wait``: for some that are about to notice, if the port is taken.
    Blocks for some seconds at most."""
    if not listener_handover.is_supported() or address.port == 0:
        return OrphanedWorkers()
    try:
        place = resolved(address)
        names = listener_handover.control_sockets(place)
        until = time.monotonic() + NOTICE_S
        while wait and not names and time.monotonic() < until and is_taken(address):
            time.sleep(POLL_EVERY_S)
            names = listener_handover.control_sockets(place)
    except OSError:
        return OrphanedWorkers()
    found = [_adopted(name) for name in names]
    return OrphanedWorkers([one for one in found if one is not None])


def _adopted(name: str) -> OrphanedWorker | None:
    try:
        channel = listener_handover.connect(name, ANSWER_LIMIT_S)
    except OSError:
        return None
    pid = listener_handover.peer_pid(channel)
    if pid is not None:
        try:
            return OrphanedWorker(pid, listener_handover.receive_listener(channel), channel)
        except TimeoutError:
            log.error("worker process %d, whose master was killed, says nothing and is killed", pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            log.info("worker process %d, whose master was killed, is about to end", pid)
    channel.close()
    return None


def _inode(listener: socket.socket) -> int:
    return os.fstat(listener.fileno()).st_ino
