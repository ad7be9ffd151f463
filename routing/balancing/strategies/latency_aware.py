"""Latency-aware weighted round robin.

Theory. Smooth weighted round robin, with each weight times the replica's favour: how its slowest responses
compare with the pool's. A replica that has become too slow for its turns so loses them until its queue
is gone; where weights are right and all goes well, favours stay at 1. They are kept by
:mod:`routing.balancing.learning.tail_weight`: per unit of work, over the pool's median, between a quarter and
four times, and moved slowly.

Source: smooth weighted balancing as in :mod:`routing.balancing.strategies.round_robin`; weights that follow
latency as in Cassandra drivers' "latency-aware" policy and F5's observed modes.

Weakness: it looks at responses, not at what is in flight, so it is late by one response and then slow: a
replica that stops answering at all keeps its turns until it is ejected. Where estimates of work are poor,
what is left of the request mix looks like slowness, for as long as a window.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.smooth_wrr import SmoothWeightedRoundRobin


class LatencyAwareParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tau_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.1,
            le=3600.0,
            description="How long a response counts, in seconds: it is forgotten after once to twice this "
            "time. Never shorter than three mean response times.",
        ),
    ] = 3.0


class LatencyAware(SmoothWeightedRoundRobin):
    """Turns by weight and by how slow the slowest responses are."""

    name: ClassVar[str] = "latency_aware"
    sentence: ClassVar[str] = (
        "Takes turns by weight; a replica whose slowest responses are slower than the others' gets fewer."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = LatencyAwareParameters
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, LatencyAwareParameters)
        super().__init__()
        self.memory: AnswerMemory | None = AnswerMemory(parameters.tau_s, "tail")

    @staticmethod
    def weights(replicas: Sequence[Replica]) -> list[float]:
        # Favours move only when a new list is made.
        return [replica.share * replica.favour for replica in replicas]
