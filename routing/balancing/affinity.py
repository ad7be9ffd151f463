"""Affinity (stickiness): what in a request says where it should go: a session's key or a prompt's beginning.

A strategy that is sticky has one of these objects. The proxy reads from the request what the object names,
and gives the pool its :meth:`Affinity.hashes`. The hashes are the same in every process and on every host. So
proxies that know nothing of each other send the same key to the same replica.
"""

from hashlib import blake2b
from typing import NamedTuple

GROWTH = 8
"""A block is at most so small a part of what stands before it, and no smaller than it is said to be."""
LONGEST_BYTES = 128 << 10
"""Of a prompt, that are looked at."""


class Affinity(NamedTuple):
    """What to read, the first that a request has. Nothing set: a key is only ever given by the caller."""

    header: bytes = b""
    """Name of a request field whose value is the key, in lower case."""
    cookie: bytes = b""
    """Name of a cookie whose value is the key."""
    user: bool = False
    """Whether the user that a body names is the key."""
    block_bytes: int = 0
    """Of the prompt, hashed block by block; 0: a text is one key as a whole."""

    def hashes(self, text: bytes) -> tuple[int, ...]:
        """Of a key's or a prompt's text, each of 64 bits; none of an empty text.

        Of a prompt one a block, each of all that stands before the block's end. Blocks grow with what stands
        before them, by an eighth, so that a long prompt has few. What is left over at the end is not hashed:
        it is where the next request with the same beginning goes on. Nor is what follows the first 128 KiB.
        """
        if not text:
            return ()
        if not self.block_bytes:
            return (_number(blake2b(text, digest_size=8).digest()),)
        running = blake2b(digest_size=8)
        found, size, begin = [], self.block_bytes, 0
        length = min(len(text), LONGEST_BYTES)
        while (end := begin + size * max(1, begin // (GROWTH * size))) <= length:
            running.update(text[begin:end])
            found.append(_number(running.digest()))
            begin = end
        return tuple(found)


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
