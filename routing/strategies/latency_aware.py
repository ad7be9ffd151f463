"""Latency-aware weighted round robin.

Theory. Smooth weighted round robin, with each weight times the replica's favour: how its slowest answers
compare with the pool's. A replica that has become too slow for its turns so loses them until its queue
is gone; where weights are right and all goes well, favours stay at 1. They are kept by
:mod:`routing.policies.answer_tail`: per unit of work, over the pool's median, between a quarter and four
times, and moved slowly.

Source: smooth weighted balancing as in :mod:`routing.strategies.round_robin`; weights that follow latency
as in Cassandra drivers' "latency-aware" policy and F5's observed modes.

Weakness: it looks at answers, not at what is in flight, so it is late by one answer and then slow: a
replica that stops answering at all keeps its turns until it is ejected. Where estimates of work are poor,
what is left of the request mix looks like slowness, for as long as a window.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.affinity import Affinity
from routing.replica import Replica
from routing.strategies.base import AnswerMemory
from routing.strategies.sampling import LARGE_POOL, SAMPLE, sample


class LatencyAwareParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tau_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.1,
            le=3600.0,
            description="How long an answer counts, in seconds: it is forgotten after once to twice this "
            "time. Never shorter than three mean answers.",
        ),
    ] = 3.0


class LatencyAware:
    """Turns by weight and by how slow the slowest answers are."""

    name: ClassVar[str] = "latency_aware"
    sentence: ClassVar[str] = (
        "Takes turns by weight, fewer for replicas whose slowest answers are slower than the others'."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = LatencyAwareParameters
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, LatencyAwareParameters)
        self.memory: AnswerMemory | None = AnswerMemory(parameters.tau_s, "tail")
        self._averaged: Sequence[Replica] = ()
        self._mean_weight = 0.0

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        best = candidates[0]
        most = float("-inf")
        total = 0.0
        ties = 1
        for replica in sample(candidates, rng):
            weight = replica.share * replica.favour
            total += weight
            replica.turn = turn = replica.turn + weight
            if turn > most:
                most, best, ties = turn, replica, 1
            elif turn == most:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = replica
        best.turn -= total if len(candidates) <= LARGE_POOL else SAMPLE * self._mean(candidates)
        return best

    def _mean(self, candidates: Sequence[Replica]) -> float:
        """Computed once for each list: favours move only when a new one is made."""
        if candidates is not self._averaged:
            self._averaged = candidates
            self._mean_weight = sum(one.share * one.favour for one in candidates) / len(candidates)
        return self._mean_weight
