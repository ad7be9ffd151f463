"""Power of two choices.

Theory. Draw two different replicas by weight and take the one with fewer requests in flight per
unit of weight. Looking at a second one shrinks the longest queue from about ``log n`` to ``log log n``
beyond the mean, at a cost that does not grow with the pool, and proxies with stale counts do not all run
to the same replica. More choices come closer to least connections. Among equals the first drawn is taken,
so an idle pool is shared by weight exactly.

Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (2001); Envoy's
``LEAST_REQUEST`` and nginx's ``random two least_conn`` are this rule.

Weakness: poor with few replicas, where comparing all costs nothing; blind to the size of requests, and
a slow replica still gets what is drawn against a busier one.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.weighted_draw import WeightedDraw


class PowerOfTwoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    choices: Annotated[
        int,
        msgspec.Meta(
            ge=2,
            le=16,
            description="How many different replicas are drawn; the one with the fewest requests in flight "
            "for its weight is taken.",
        ),
    ] = 2


class PowerOfTwo:
    """The less loaded of a few drawn by weight."""

    name: ClassVar[str] = "power_of_two"
    sentence: ClassVar[str] = (
        "Draws two replicas by weight and picks the one with fewer requests in flight for its weight."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = PowerOfTwoParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, PowerOfTwoParameters)
        self.choices = parameters.choices
        self._draw = WeightedDraw()

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        best = candidates[0]
        least = float("inf")
        for replica in self._draw.distinct(candidates, self.choices, rng):
            score = replica.load / replica.share
            if score < least:
                least, best = score, replica
        return best
