"""The four replicas of the example fleet ``tiny-llm``: one model family on hardware of unequal speed.

Nothing sleeps to seem slow. ``steady`` has a quarter of ``quick``'s slots and one thread, ``deep`` computes
ten times the layers, and ``wide`` has half a million tokens in its vocabulary: llama.cpp really takes
seconds to load that (503 ``Loading model`` meanwhile) and really is slower for each token it picks.
"""

from typing import NamedTuple


class Shape(NamedTuple):
    """Size of a network. ``width`` is a multiple of 32."""

    width: int = 192
    layers: int = 6
    vocabulary: int = 4096
    context: int = 32768
    """Tokens it is declared to have been trained on at once."""


class Replica(NamedTuple):
    shape: Shape
    threads: int
    slots: int
    context: int
    """Tokens that all slots together can hold."""


SMALL = Shape()

REPLICAS = {
    "quick": Replica(SMALL, threads=2, slots=4, context=8192),
    "steady": Replica(SMALL, threads=1, slots=1, context=2048),
    "deep": Replica(Shape(layers=60), threads=1, slots=2, context=4096),
    "wide": Replica(Shape(width=64, layers=2, vocabulary=500_000), threads=1, slots=2, context=4096),
}
