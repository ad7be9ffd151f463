"""Smooth weighted round robin (WRR), whatever the weights are: what strategies that take turns share.

Theory. Every replica has a running credit, ``Replica.wrr_credit``. At each pick all candidates earn their
weight, the one with the most credit is taken and pays the sum of all weights.

In a large pool only a sample earns and is compared. What the winner pays is then the
*mean* sum of a sample: the sum of the sample it won in would charge heavy replicas more, since a
sample with them in it is heavier.

Among equal credits the choice is random, so that independent proxies do not move in step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import LARGE_POOL, SAMPLE, sample


class SmoothWeightedRoundRobin(ABC):
    """A strategy that takes turns."""

    def __init__(self) -> None:
        self._averaged: Sequence[Replica] = ()
        self._mean_weight = 0.0

    @staticmethod
    @abstractmethod
    def weights(replicas: Sequence[Replica]) -> list[float]:
        """How much each earns in a turn."""

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        best = candidates[0]
        most = float("-inf")
        ties = 1
        earning = sample(candidates, rng)
        weights = self.weights(earning)
        for replica, weight in zip(earning, weights, strict=True):
            replica.wrr_credit = wrr_credit = replica.wrr_credit + weight
            if wrr_credit > most:
                most, best, ties = wrr_credit, replica, 1
            elif wrr_credit == most:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = replica
        best.wrr_credit -= sum(weights) if len(candidates) <= LARGE_POOL else SAMPLE * self._mean(candidates)
        return best

    def pick_of_sample(self, some: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        """Of two or more that were drawn at random from among more: others will be drawn next time."""
        best = self.pick(some, work, now, rng)
        weights, (own,) = self.weights(some), self.weights([best])
        # What the sum is on average, by what the others of this sample say of it.
        paid = sum(weights)
        best.wrr_credit += paid - (paid - own) * len(some) / (len(some) - 1)
        return best

    def _mean(self, candidates: Sequence[Replica]) -> float:
        """Computed once for each list: lists are replaced, never edited, and weights move with them."""
        if candidates is not self._averaged:
            self._averaged = candidates
            self._mean_weight = sum(self.weights(candidates)) / len(candidates)
        return self._mean_weight
