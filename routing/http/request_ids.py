"""Request ids that are unique without a system call each: a random prefix and a counter."""

import os
from collections.abc import Iterator
from itertools import chain, product

_TWO_DIGITS = [b"%02x" % number for number in range(256)]


def request_ids() -> Iterator[bytes]:
    """24 hexadecimal digits each: 16 random ones of this worker and 8 that count.

    A product of ready-made digits, because formatting a number costs several times as much.
    After 2³² ids another prefix is drawn.
    """
    return chain.from_iterable(_counted(prefix) for prefix in iter(lambda: os.urandom(8).hex().encode(), b""))


def _counted(prefix: bytes) -> Iterator[bytes]:
    return map(b"".join, product((prefix,), _TWO_DIGITS, _TWO_DIGITS, _TWO_DIGITS, _TWO_DIGITS))
