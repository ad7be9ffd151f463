"""Sampling: in a large pool a strategy looks at some replicas drawn at random, not at everyone.

Theory. The best of 16 drawn at random is among the best 6 % of the pool on average, and workers that
draw independently do not all run to the one best replica. So the cost of a pick stays that of a small pool.

Source: the power of d choices (Mitzenmacher, "The Power of Two Choices in Randomized Load
Balancing", 2001).
"""

from collections.abc import Sequence
from random import Random

from routing.balancing.replica.state import Replica

LARGE_POOL = 64
SAMPLE = 16


def sample(candidates: Sequence[Replica], rng: Random, up_to: int = LARGE_POOL) -> Sequence[Replica]:
    """All of a pool of ``up_to`` so many, else 16 drawn with replacement (a double does no harm and saves
    time)."""
    size = len(candidates)
    if size <= up_to:
        return candidates
    draw = rng.random
    return [candidates[int(draw() * size)] for _ in range(SAMPLE)]
