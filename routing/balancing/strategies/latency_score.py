"""Least latency: the comparison that the strategies by response time share."""

from collections.abc import Sequence
from random import Random

from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import sample


def least_latency(candidates: Sequence[Replica], rng: Random) -> Replica:
    """The least ``answer_s · (in_flight + 1) / weight``; ties at random, large pools sampled."""
    best = candidates[0]
    least = float("inf")
    ties = 1
    for replica in sample(candidates, rng):
        score = replica.answer_s * (replica.load + 1) / replica.share
        if score < least:
            least, best, ties = score, replica, 1
        elif score == least:
            ties += 1
            if rng.random() * ties < 1.0:
                best = replica
    return best
