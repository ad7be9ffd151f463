"""Common random numbers: every strategy sees the same requests, so a difference comes from the strategy.

Each purpose has a stream of random numbers of its own. How often a strategy draws a number therefore does not
change which requests arrive, or when. The seed is a text. Python's generator hashes it with SHA-512, so the
stream is the same in every process.
"""

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """``purpose``: ``arrivals``, ``proxy 3`` and the like."""
    return Random(f"{seed}/{purpose}")
