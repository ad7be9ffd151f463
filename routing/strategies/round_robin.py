"""Smooth weighted round robin.

Theory. Every replica has a running credit. At each pick all candidates earn their weight, the one
with the most credit is taken and pays the sum of all weights. Over any whole number of rounds each
replica gets exactly its share, and picks of one replica are spread out instead of coming in a row:
weights 5, 1, 1 give a a b a c a a.

Source: nginx, ``ngx_http_upstream_round_robin`` (smooth weighted balancing, 2012).

Weakness: blind to load, to the size of requests and to a replica that has become slow.

Among equal credits the choice is random, so that independent proxies do not move in step.

In a large pool only a sample earns and is compared. What the winner pays is then the
*mean* sum of a sample: the sum of the sample it won in would charge heavy replicas more, since a
sample with them in it is heavier.
"""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import msgspec

from routing.affinity import Affinity
from routing.replica import Replica
from routing.strategies.base import AnswerMemory, NoParameters
from routing.strategies.sampling import LARGE_POOL, SAMPLE, sample


class RoundRobin:
    """Takes turns by weight. The credit is kept in ``Replica.turn``."""

    name: ClassVar[str] = "round_robin"
    sentence: ClassVar[str] = (
        "Takes turns, each replica as often as its weight says; blind to load and speed."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        self._averaged: Sequence[Replica] = ()
        self._mean_share = 0.0

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        best = candidates[0]
        most = float("-inf")
        total = 0.0
        ties = 1
        for replica in sample(candidates, rng):
            share = replica.share
            total += share
            replica.turn = turn = replica.turn + share
            if turn > most:
                most, best, ties = turn, replica, 1
            elif turn == most:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = replica
        best.turn -= total if len(candidates) <= LARGE_POOL else SAMPLE * self._mean(candidates)
        return best

    def _mean(self, candidates: Sequence[Replica]) -> float:
        """Mean weight, computed once for each list: lists are replaced, never edited."""
        if candidates is not self._averaged:
            self._averaged = candidates
            self._mean_share = sum(replica.share for replica in candidates) / len(candidates)
        return self._mean_share
