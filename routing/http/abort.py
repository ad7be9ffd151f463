"""Abortive close: closing a connection so that its peer learns of it at once, with a reset if need be.

Theory. A FIN is queued behind the bytes that were written. While the peer reads nothing, those bytes do not
go out, and neither does the FIN. The peer does not learn of the close, and the kernel keeps connection and
bytes for minutes. A reset overtakes them (RFC 9293 §3.10.5). When everything has gone out, a FIN is as quick
and is no error to the peer.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys

_NO_LINGER = struct.pack("ii", 1, 0)
_SIOCOUTQNSD = 0x894B
"""Linux's number for asking how many bytes a socket has not sent yet (linux/sockios.h)."""


def abort_transport(transport: asyncio.Transport, reset: bool = False) -> None:
    """Close now and drop what is written; with a reset where bytes wait that the peer does not take, or where
    it is asked for."""
    if (reset and not transport.is_closing()) or has_unsent(transport):
        with contextlib.suppress(OSError):
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


def has_unsent(transport: asyncio.Transport) -> bool:
    """Whether a FIN would have to wait. Only Linux reports the bytes in the kernel's buffer."""
    # The descriptor of a transport that is closing may be another connection's already.
    if transport.is_closing():
        return False
    if transport.get_write_buffer_size():
        return True
    raw = transport.get_extra_info("socket")
    if sys.platform != "linux" or raw is None:
        return False
    try:
        pending = fcntl.ioctl(raw.fileno(), _SIOCOUTQNSD, bytes(4))
    except OSError:
        return False
    return pending != bytes(4)
