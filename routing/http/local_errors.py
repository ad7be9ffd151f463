"""Local error: why this host cannot open a connection, whoever is at the other end.

A connection may be refused by the host that it is to come from: it has no local port left for that
destination, no memory for buffers, its network is down. That is no fault of the replica. Want of descriptors
is of the same kind, and has its own treatment (:mod:`routing.ipc.descriptors`).

``ENETUNREACH`` and ``EHOSTUNREACH`` are not among them: that there is no way to one address is what an
unreachable replica looks like.
"""

import errno
import os
from collections.abc import Mapping

_WORDS: Mapping[int, str] = {
    errno.EADDRNOTAVAIL: "no local port is left for it, or there is no local address of that kind",
    errno.ENOBUFS: "no buffer space is left",
    errno.ENOMEM: "no memory is left",
    errno.ENETDOWN: "the network is down",
}


def local_error(error: OSError) -> str:
    """What this host lacks, in words; empty: the error is not its own."""
    number = error.errno or 0
    return f"{_WORDS[number]} ({os.strerror(number)})" if number in _WORDS else ""
