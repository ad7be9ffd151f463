"""Least expected work, the default: send the request where it is expected to be done soonest.

Theory. Let ``m`` be the learned seconds per unit of work of a replica, ``w`` this request's
estimated work, ``W`` and ``n`` the work and the number of requests outstanding there, and ``C`` how
many it serves at once.

*Slots.* A replica serves up to C requests as if each were alone. The request takes ``m · w`` itself. It waits
only when no slot is free, for its share of the work ahead of it::

    score = m · (w + κ · (W / C) · max(0, n + 1 − C) / n)

κ above 1 makes waiting count more than working, because estimates of the work ahead are rougher than the
count of requests. ``W`` and ``n`` include the requests that wait in the proxy for a slot there. So a large
request waits for a fast replica rather than take a slow one's free slot, which is what halves the tail. A
small one, for which waiting would be most of its time, takes the free slot. Between 2 and 7 κ changes the
mean by 4 % at most (simulated, 85 % load). The tail is shortest at 2 to 4 where sizes are spread widely:
beyond, large requests wait too rarely; below, small ones wait too often.

*Several proxies* that serve the same replicas see only their own requests. ``C`` is then this proxy's part
of the slots (:mod:`routing.shared.quota_share`), ``n`` and ``W`` are its own: since the others follow the
same rule, what they have there is on average what it has, and where its part is taken the others' parts most
likely are. What that misses, learned speeds add: where others' requests wait, responses take longer. It holds
where requests wait at the replicas (``queue.at: replica``), so that a part is no wall: with one slot of four
for each of four proxies, a proxy that may not pass its part leaves slots idle while its requests wait.

Among equal replicas the one with most slots free is taken: a full one must be faster by :data:`DOUBT` of the
request's time to be waited for, one that is half full by half of that.

*Batches.* Every request in flight slows the others down. Then::

    score = m · (n + 1)^a · w

with ``m`` learned as experienced, at whatever depth it had. ``w`` is the same for all candidates; it
is there so that both forms can be compared in one fleet. ``a`` is 1. Where responses tell their tokens it is
0.8: ``m`` is then learned from every stream as it passes and shows the depth by itself. A limit on a batching
server is a wall: at it, the request waits as it would for a slot.

Which of the two a fleet is, or how far, is learned (:mod:`routing.balancing.learning.service_shape`), and
``serves`` of the policy may say it. Without a limit C is not known, and replicas are taken to batch.

``m`` is learned by :mod:`routing.balancing.learning.learned_speed`: seeded from the hardware weight and the
pool's median, drifting back there while idle; failures count as slow responses. What may be chance
is left out of it (:mod:`routing.balancing.learning.fleet_speed`). Slow start scales ``m``.

Source: expected-delay routing (shortest expected delay, "join the shortest workload queue"; for the
batching form Finagle's and Linkerd's EWMA · (pending + 1)), and our own simulations.

Weakness: without a good estimate of work it knows no more than least connections with learned
speeds; a weight is only where learning starts, what is measured wins within seconds.
"""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import ClassVar, Final

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.expected_work_parameters import LeastExpectedWorkParameters
from routing.balancing.strategies.sampling import LARGE_POOL, sample

MOST_LOAD: Final = 1000
"""Requests at a replica; at more than so many, scores are reckoned one by one."""
DOUBT: Final = 0.15
"""Share of a request's time by which a full replica has to be faster than an idle one."""


class LeastExpectedWork:
    """Least expected seconds; ties at random."""

    name: ClassVar[str] = "least_expected_work"
    sentence: ClassVar[str] = (
        "Learns how fast each replica is and picks the one expected to finish this request soonest."
    )
    weighs_waiting: ClassVar[bool] = True
    Parameters: ClassVar[type[msgspec.Struct]] = LeastExpectedWorkParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, LeastExpectedWorkParameters)
        self.kappa = parameters.kappa
        self._of: Sequence[Replica] = ()
        self._depths: list[float] | None = None
        """By the number of requests at a replica what a further one counts for: of all of these replicas, if
        they batch alike and none has a limit. ``None``: they do not."""

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        if candidates is not self._of:
            self._of, self._depths = candidates, _common_depths(candidates)
        depths = self._depths
        if depths is None:
            return self._least(candidates, work, rng)
        # The usual fleet. Without ``work``, which is the same for all.
        best = candidates[0]
        least = float("inf")
        tied: list[Replica] | None = None
        try:
            for replica in candidates:
                score = replica.cost * depths[replica.load]
                if score < least:
                    least, best, tied = score, replica, None
                elif score == least:
                    if tied is None:
                        tied = [best]
                    tied.append(replica)
        except IndexError:  # more requests than any replica has had
            return self._least(candidates, work, rng)
        return best if tied is None else tied[int(rng.random() * len(tied))]

    def _least(self, candidates: Sequence[Replica], work: float, rng: Random) -> Replica:
        best = candidates[0]
        least = float("inf")
        tied: list[Replica] | None = None
        looked_at = candidates if len(candidates) <= LARGE_POOL else sample(candidates, rng)
        for replica in looked_at:
            slots = replica.concurrency
            load = replica.load
            power = replica.depth_power
            if slots is None:
                score = replica.cost * (load + 1 if power == 1.0 else (load + 1) ** power) * work
            elif load < slots:
                score = replica.cost * ((load + 1) ** power if power else 1.0 + DOUBT * load / slots) * work
            else:
                waiting = self.kappa * replica.load_work * (load + 1 - slots) / (slots * load)
                score = replica.cost * (work + waiting) * slots**power + replica.cost * DOUBT * work
            if score < least:
                least, best, tied = score, replica, None
            elif score == least:
                if tied is None:
                    tied = [best]
                tied.append(replica)
        return best if tied is None else tied[int(rng.random() * len(tied))]


def _common_depths(candidates: Sequence[Replica]) -> list[float] | None:
    """``(n + 1) ** depth_power``, if that is the same for all and none of them has a limit. Where that may
    have changed, a pool picks from a new list."""
    if len(candidates) > LARGE_POOL:
        return None
    power = candidates[0].depth_power
    for replica in candidates:
        if replica.concurrency is not None or replica.depth_power != power:
            return None
    return _depths(power)


@cache
def _depths(power: float) -> list[float]:
    return [(load + 1) ** power for load in range(MOST_LOAD)]
