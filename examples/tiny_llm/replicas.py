"""The four replicas of the example fleet ``tiny-llm``: one model family on hardware of unequal speed.

Nothing sleeps to seem slow. ``quick`` computes a third of ``steady``'s layers and has more slots, ``deep``
computes ten times as many, and ``wide`` has half a million tokens in its vocabulary: llama.cpp really takes
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


REPLICAS = {
    "quick": Replica(Shape(layers=2), threads=1, slots=4, context=8192),
    "steady": Replica(Shape(layers=6), threads=2, slots=2, context=4096),
    "deep": Replica(Shape(layers=60), threads=1, slots=1, context=2048),
    "wide": Replica(Shape(width=64, layers=2, vocabulary=500_000), threads=1, slots=2, context=4096),
}
