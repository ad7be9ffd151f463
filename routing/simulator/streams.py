"""Random numbers by what they are for, so that every strategy sees the same requests.

One stream a purpose: how often a strategy draws changes nothing about what arrives when. Seeded by text,
which Python's generator hashes by itself (SHA-512), the same in every process.
"""

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """``purpose``: ``arrivals``, ``proxy 3`` and the like."""
    return Random(f"{seed}/{purpose}")
