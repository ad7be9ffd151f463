"""Weighted random.

Theory. Each request goes to a replica drawn at random, each as often as its weight says. Nothing is
remembered and nothing compared, so any number of proxies share the load as one would.

Source: weighted random selection by running sums and binary search; the rule is Envoy's ``RANDOM`` and
nginx's ``random`` without ``two``.

Weakness: blind to load, to the size of requests and to a replica that has become slow. By chance alone
some replica always has about twice the mean in flight: use it to compare others with.
"""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory, NoParameters
from routing.balancing.strategies.weighted_draw import WeightedDraw


class WeightedRandom:
    """A draw by weight for each request."""

    name: ClassVar[str] = "random"
    sentence: ClassVar[str] = (
        "Draws a replica at random, each as often as its weight says; blind to load and speed."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        self._draw = WeightedDraw()

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        return self._draw.one(candidates, rng)
