"""Census: what outlier detection knows of a whole pool when it judges one replica: who is out, who answers.

A small pool is counted anew each time. A large one is counted once in :data:`EVERY_S` at most, and what this
worker does meanwhile is added. Where hundreds of replicas fail at the same moment, each would cost a look at
all others otherwise. What sibling workers eject within that time may take the host beyond its limit by as
many.
"""

from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import TypeVar, cast

from routing.balancing.outlier import eligibility, success_rate
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import LARGE_POOL

EVERY_S = 0.01
T = TypeVar("T")


class Census:
    """Of one pool. Times are monotonic seconds."""

    def __init__(
        self, replicas: Callable[[], Sequence[Replica]], follow: Callable[[Replica, float], None]
    ) -> None:
        """``replicas()``: those in the table. ``follow`` brings one's ejection up to date with the host."""
        self.site = ""
        """The proxy's own, where sites matter."""
        self._replicas = replicas
        self._follow = follow
        self._of: Sequence[Replica] = ()
        self._at = 0.0
        self._known: dict[str, object] = {}

    def available(self, now: float) -> int:
        """How many replicas could be in use if none was ejected."""
        return self._count("available", now, lambda all: eligibility.available(all, self.site))

    def is_panic(self, now: float) -> bool:
        """Whether health is ignored."""
        return self._count("panic", now, lambda all: eligibility.is_panic(all, self.site))

    def ejected(self, now: float) -> int:
        """How many are ejected on this host."""
        return self._count("ejected", now, lambda all: self._ejected(all, now))

    def out(self, now: float) -> int:
        """How many are ejected, or softly ejected."""
        return self._count(
            "out", now, lambda all: sum(bool(one.ejection.until or one.ejection.soft_until) for one in all)
        )

    def moved(self, ejected: int = 0, out: int = 0) -> None:
        """So many more, or fewer, are out since they were counted."""
        for name, more in (("ejected", ejected), ("out", out)):
            if name in self._known:
                self._known[name] = cast("int", self._known[name]) + more

    def answering(self, now: float) -> Sequence[Replica]:
        """Those that may show that the fleet answers; of a large one the two that have done so last."""
        if len(self._replicas()) <= LARGE_POOL:
            return self._replicas()
        return self._count("answering", now, _last_two)

    def answers(self, now: float) -> tuple[int, int]:
        """Recent successes and failures of all."""
        return self._count("answers", now, success_rate.answers)

    def failed_share(self, besides: Replica, failures: int, now: float) -> float:
        """Share of failures among the recent responses of the other replicas that are not ejected
        and have failed fewer times in a row; if there are none, of all others."""

        def share(all: Sequence[Replica]) -> float:
            others = [one for one in all if one is not besides]
            well = [one for one in others if not one.ejection.until and one.ejection.failures < failures]
            return success_rate.failed_share(well or others)

        return self._count("failed", now, share)

    def _count(self, name: str, now: float, count: Callable[[Sequence[Replica]], T]) -> T:
        replicas = self._replicas()
        if len(replicas) <= LARGE_POOL:
            return count(replicas)
        if replicas is not self._of or not 0 <= now - self._at < EVERY_S:
            self._of, self._at = replicas, now
            self._known = {}
        if name not in self._known:
            self._known[name] = count(replicas)
        return cast("T", self._known[name])

    def _ejected(self, replicas: Sequence[Replica], now: float) -> int:
        for replica in replicas:
            self._follow(replica, now)
        return sum(bool(replica.ejection.until) for replica in replicas)


def _last_two(replicas: Sequence[Replica]) -> Sequence[Replica]:
    return nlargest(
        2,
        [one for one in replicas if not one.ejection.until],
        key=lambda one: one.ejection.progress.succeeded_at,
    )
