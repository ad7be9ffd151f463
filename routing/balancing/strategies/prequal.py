"""Prequal: hot and cold replicas.

Theory. A replica with more requests in flight for its weight than 84 % of the pool is *hot*, every other one
*cold*. Among the cold ones, the one with the lowest expected latency is picked, for load says little there.
If all are hot, the one with the fewest requests in flight is picked, for the next request must queue. Where
hot begins is computed when the list of candidates is renewed (every tenth of a second), as Prequal's own
bound is that of its recent probes. So in a burst all replicas are hot before long, and the burst spreads.

The latency is learned at the load that the replica has now
(:mod:`routing.balancing.learning.latency_by_load`), per unit of work, so that the mix of requests does not
matter. It begins at the hardware weight, drifts back to what is known of the replica while that is idle, and
is longer in slow start. Both halves of the rule attract a replica that fails fast: it has nothing in flight
and responds soonest. So a failure is learned as a slow response
(:mod:`routing.balancing.learning.failure_penalty`). And if a replica's learned speed is several times slower
than four times the pool's median, each request in flight there counts so many times: it is soon hot.

Source: Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing Prequal"
(NSDI 2024), §4. There both figures come from probes; here from the requests themselves.

Weakness: blind to the size of what is in flight. Below the bound the fastest replica gets all requests, so in
a quiet fleet few replicas work, and what is known of the others is old. Servers that batch have no bound
below which more requests cost nothing: responses there take a tenth longer than with the default.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.learned_state import LOAD_LEVELS
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.sampling import sample

LAST_LEVEL = LOAD_LEVELS - 1
FAR_SLOWER = 4.0
"""Than the median: so slow that its few requests in flight are not the whole of its load."""


class PrequalParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quantile: Annotated[
        float,
        msgspec.Meta(
            ge=0.0,
            le=1.0,
            description="Share of the replicas that count as cold, those with the fewest requests in "
            "flight for their weight; the fastest of them is picked. 0: load decides alone; 1: speed does.",
        ),
    ] = 0.84
    tau_s: Annotated[
        float,
        msgspec.Meta(
            ge=0.1,
            le=3600.0,
            description="Memory in seconds: a response this old counts a third of a new one. "
            "Never shorter than three mean response times.",
        ),
    ] = 5.0


class Prequal:
    """The fastest of the cold, else the least loaded; ties at random."""

    name: ClassVar[str] = "prequal"
    sentence: ClassVar[str] = (
        "Picks the fastest of the replicas that are not among the most loaded; if all are, the least loaded."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = PrequalParameters
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, PrequalParameters)
        self.memory: AnswerMemory | None = AnswerMemory(parameters.tau_s, "by load")
        self.quantile = parameters.quantile
        self._seen: Sequence[Replica] = ()
        self._hot_above = self._far = 0.0

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        if candidates is not self._seen:
            self._see(candidates)
        hot_above, far = self._hot_above, self._far
        best = candidates[0]
        none_cold = True
        least = float("inf")
        ties = 1
        for replica in sample(candidates, rng):
            load = replica.load
            score = (load + 1) / replica.share
            slowness = replica.cost * far
            if slowness > 1.0:
                score *= slowness
            if score <= hot_above:
                level = load.bit_length()
                score = replica.speed_by_load.reading[level if level < LAST_LEVEL else LAST_LEVEL]
                if none_cold:
                    none_cold = False
                    least = float("inf")
            elif not none_cold:
                continue
            if score < least:
                least, best, ties = score, replica, 1
            elif score == least:
                ties += 1
                if rng.random() * ties < 1.0:
                    best = replica
        return best

    def _see(self, candidates: Sequence[Replica]) -> None:
        """Where hot begins, once for each list: lists are replaced, never edited."""
        self._seen = candidates
        loads = sorted((replica.load + 1) / replica.share for replica in candidates)
        self._hot_above = loads[int(self.quantile * (len(loads) - 1))]
        usual = sorted(replica.cost for replica in candidates)[len(candidates) // 2]
        self._far = 1 / (FAR_SLOWER * usual) if usual else 0.0
