"""File descriptor limits (ulimit -n): how many a process may have, how many it has, how many are reserved.

A request in flight holds two descriptors: the client's connection and the replica's. So by default half of
the limit is for clients, and no traffic can use up all descriptors.
"""

import contextlib
import errno
import os
import resource
import socket

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
"""What opening fails with when the process, or the whole system, has no descriptor left."""
RESERVED_FOR_PROCESS = 64
"""For the loop, Redis, files, and connections that are being closed: not for clients."""
RESERVED_FREE = 32
"""No client gets one of so many last descriptors, whatever has taken the others."""
_OPEN = "/proc/self/fd"


def raise_limit() -> None:
    """Take what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Open files that this process may have now; it can be changed while the process runs (``prlimit``)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def hard_limit() -> int:
    """What :func:`raise_limit` may reach."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def in_use() -> int:
    """How many are open; 0 where the system does not report it (no Linux)."""
    try:
        # Linux 6.2 and later give the number as the folder's size, which costs the same for any number.
        return os.stat(_OPEN).st_size or len(os.listdir(_OPEN)) - 1
    except OSError:
        return 0


def exhausted(needed: int = 1) -> bool:
    """Whether so many more cannot be opened."""
    opened: list[int] = []
    try:
        for _ in range(needed):
            opened.append(os.dup(0))  # noqa: PERF401 (those opened before a failure are closed too)
    except OSError as problem:
        return problem.errno in OUT_OF_DESCRIPTORS
    finally:
        for number in opened:
            os.close(number)
    return False


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether a connection could not be opened because this process has no descriptor left."""
    # A name that cannot be looked up for want of one fails with an error of another kind.
    return error.errno in OUT_OF_DESCRIPTORS or (isinstance(error, socket.gaierror) and exhausted())


def default_max_connections(descriptors: int) -> int:
    """Clients that a process with so many descriptors takes when nothing else is said."""
    return max(1, (descriptors - RESERVED_FOR_PROCESS) // 2)


def hard_max_connections(descriptors: int) -> int:
    """Clients that it could take at all, with nothing left for replicas but what is kept free."""
    return max(1, descriptors - RESERVED_FOR_PROCESS)
