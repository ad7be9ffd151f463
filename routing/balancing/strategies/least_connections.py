"""Weighted least connections.

Theory. Take the replica that would have the fewest requests in flight per unit of weight once it
had this one too: the least ``(in_flight + 1) / weight``. The ``+ 1`` makes weight count among idle
replicas as well. A slow replica is found out because its requests pile up.

Source: HAProxy, ``balance leastconn`` (weights scale the number of connections).

Weakness: blind to the size of requests, and to slowness until a queue shows it.
"""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory, NoParameters
from routing.balancing.strategies.sampling import sample


class LeastConnections:
    """Least requests in flight for its weight; ties at random."""

    name: ClassVar[str] = "least_connections"
    sentence: ClassVar[str] = "Picks the replica with the fewest requests in flight for its weight."
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        pass

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        best = candidates[0]
        least = float("inf")
        ties = 1
        for replica in sample(candidates, rng):
            score = (replica.load + 1) / replica.share
            if score < least:
                least, best, ties = score, replica, 1
            elif score == least:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = replica
        return best
