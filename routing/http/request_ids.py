"""Request ids that are unique without a system call each: a random prefix and a counter."""

import os
from itertools import count


class RequestIds:
    """Gives 24 hexadecimal digits: 16 random ones of this worker, 8 that count."""

    __slots__ = ("_count", "_prefix")

    def __init__(self) -> None:
        self._prefix = os.urandom(8).hex().encode()
        self._count = count(1)

    def next(self) -> bytes:
        return b"%b%08x" % (self._prefix, next(self._count))
