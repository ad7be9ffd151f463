"""Least response time.

Theory. Take the least ``t · (in_flight + 1) / weight``, where ``t`` is the replica's mean response time
over the last τ seconds. ``t`` tells slow from fast, the count corrects it before the next response is in.
``t`` is kept by :mod:`routing.balancing.learning.latency_ewma`: a failure counts as a slow response, and a
replica that nobody has tried for a while drifts back to what is expected of it.

Source: nginx's ``least_time`` and F5's "observed" modes, with a time-decayed mean (as Finagle's EWMA).

Weakness: follows the mix of requests. Whoever happened to get the long ones looks slow until τ has
passed. And it counts a weight on top of what it has measured, so a fast replica with a high weight is
counted as fast twice: leave weights at 1 where speeds can be learned, or use least expected work.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.latency_score import least_latency


class LeastResponseTimeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tau_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.1,
            le=3600.0,
            description="Memory in seconds: a response this old counts a third of a new one. "
            "Never shorter than three mean response times.",
        ),
    ] = 10.0


class LeastResponseTime:
    """Least mean response time for its load and weight; ties at random."""

    name: ClassVar[str] = "least_response_time"
    sentence: ClassVar[str] = (
        "Picks the replica with the shortest recent response times for its requests in flight and its weight."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = LeastResponseTimeParameters
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, LeastResponseTimeParameters)
        self.memory: AnswerMemory | None = AnswerMemory(parameters.tau_s, "mean")

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        return least_latency(candidates, rng)
