"""Peak EWMA.

Theory. Take the least ``p · (in_flight + 1) / weight``, where ``p`` is the replica's peak response time: a
slower response is believed at once, faster ones lower it as ``e^(−Δt/τ)``. So a replica that slows down is
left after a single response and has to prove itself over about τ. ``p`` is kept by
:mod:`routing.balancing.learning.latency_ewma`; while a replica is idle its peak drifts to what is expected of
it, so that it is tried again.

Source: Finagle's "Peak EWMA" balancer, also Linkerd's; they draw two and compare, here all are compared.

Weakness: mixed request sizes look like peaks, so with long and short requests in one fleet it punishes
whoever got a long one. As with least response time, a weight counts on top of what was measured.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.latency_score import least_latency


class PeakEwmaParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tau_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.1,
            le=3600.0,
            description="How long a peak is remembered, in seconds: after this time of faster responses a "
            "third of it is left. Never shorter than three mean response times.",
        ),
    ] = 10.0


class PeakEwma:
    """Least peak response time for its load and weight; ties at random."""

    name: ClassVar[str] = "peak_ewma"
    sentence: ClassVar[str] = (
        "Avoids a replica as soon as one response is slow; seconds of fast responses win the trust back."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = PeakEwmaParameters
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, PeakEwmaParameters)
        self.memory: AnswerMemory | None = AnswerMemory(parameters.tau_s, "peak")

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        return least_latency(candidates, rng)
