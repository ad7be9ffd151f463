"""Least outstanding work.

Theory. Take the replica that would have the least work in flight for its weight once it had this request too.
Where work is estimated well, that is how long its queue is in seconds; a count of requests takes a long
one for a short one.

Source: "join the shortest workload queue", as in every textbook on queues.

Weakness: believes estimates and weights, and learns nothing.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.sampling import sample


class LeastOutstandingWorkParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    request_work: Annotated[
        float,
        msgspec.Meta(
            ge=0.0,
            le=1e9,
            description="What every request in flight counts besides its estimated work.",
        ),
    ] = 0.0


class LeastOutstandingWork:
    """Least work in flight for its weight; ties at random."""

    name: ClassVar[str] = "least_outstanding_work"
    sentence: ClassVar[str] = "Picks the replica with the least estimated work in flight for its weight."
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = LeastOutstandingWorkParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, LeastOutstandingWorkParameters)
        self.request_work = parameters.request_work

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        def outstanding(replica: Replica) -> tuple[float, float]:
            waiting = replica.load_work + work + self.request_work * (replica.load + 1)
            return waiting / replica.share, rng.random()

        return min(sample(candidates, rng), key=outstanding)
