"""Prefix digest: which prompts' prefixes replicas were sent, told by a worker to other hosts as hashes.

MessagePack of arrays, 8 bytes a hash. A replica is its column's digest
(:func:`routing.shared.prefix_memory.digest`). Hashes mean the same only under the same ``block_bytes``, so
each part states it. A later version may append fields, which this one passes over; one that means something
else has another ``format``.
"""

import sys
from array import array
from collections.abc import Sequence

import msgspec

FORMAT = 1
MOST_BYTES = 256 << 10
"""A longer message is not read."""
MOST_HASHES = 8192
"""Of one message."""
HASH_BYTES = 8


class FleetPart(msgspec.Struct, frozen=True, array_like=True):
    """What was sent to one fleet's replicas."""

    fleet: str
    block_bytes: int
    replicas: list[tuple[bytes, bytes]]
    """A replica's digest, and :func:`packed` hashes."""


class PrefixDigest(msgspec.Struct, frozen=True, array_like=True):
    """One message."""

    format: int
    origin: bytes
    """Identity of the sender's memory: who shares that knows it all."""
    fleets: list[FleetPart]


_decoder = msgspec.msgpack.Decoder(PrefixDigest)


def encode(digest: PrefixDigest) -> bytes:
    return msgspec.msgpack.encode(digest)


def decode(data: bytes) -> PrefixDigest:
    """Raises ValueError, and what is in :data:`routing.contract.decode_errors.DECODE_ERRORS`."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"{len(data)} bytes are more than {MOST_BYTES}")
    digest = _decoder.decode(data)
    if digest.format != FORMAT:
        raise ValueError(f"the format is {digest.format}, not {FORMAT}")
    hashes = 0
    for part in digest.fleets:
        for _, words in part.replicas:
            if len(words) % HASH_BYTES:
                raise ValueError(f"{len(words)} bytes are no hashes of {HASH_BYTES} bytes each")
            hashes += len(words) // HASH_BYTES
    if hashes > MOST_HASHES:
        raise ValueError(f"{hashes} hashes are more than {MOST_HASHES}")
    return digest


def packed(hashes: Sequence[int]) -> bytes:
    """Of 64 bits each, little-endian."""
    words = array("Q", hashes)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def unpacked(data: bytes) -> "array[int]":
    """Raises ValueError when that is no whole number of hashes."""
    words = array("Q")
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words
