"""What of a request says where it should go: the name of a session, or the beginning of a prompt.

A strategy with such a notion has one of these objects; whoever has the request reads out of it what the
object says and hands the pool its :meth:`Affinity.hashes`. They are the same in every process and on every
host, so that proxies that know nothing of each other send the same key to the same place.
"""

from hashlib import blake2b
from typing import NamedTuple


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

        Of a prompt one a block, each of all that stands before the block's end. What is left over at the end
        is not hashed: it is where the next request with the same beginning goes on.
        """
        if not text:
            return ()
        if not self.block_bytes:
            return (_number(blake2b(text, digest_size=8).digest()),)
        running = blake2b(digest_size=8)
        found, size = [], self.block_bytes
        for begin in range(0, len(text) - size + 1, size):
            running.update(text[begin : begin + size])
            found.append(_number(running.digest()))
        return tuple(found)


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")
