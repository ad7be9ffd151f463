"""Free slots: which other replicas are below their concurrency limit, where the picked one is not.

Theory. In a small pool all replicas are looked at. In a large one they are drawn at random until the strategy
has its sample, at most :data:`LOOKS`: where one in twenty has a slot, three of these have. If hardly any is
found a second time, all are looked at once, and those that have a slot are remembered. From then on only
these are looked at. A slot is taken only by a request that this worker begins, which shows at the next look;
it becomes free when a request ends, which is noted here. This holds until the pool renews its list, ten times
a second, or until the counts of sibling workers, whose requests are not noted, have been read again. So where
nearly all replicas are full, a pick costs as many looks as there are slots, and one look at all of them in a
tenth of a second.
"""

from collections.abc import Sequence
from random import Random

from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.sibling_load import with_slot
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import LARGE_POOL, SAMPLE

LOOKS = 64
ENOUGH = 4
"""Found in so many looks: more need not be known."""
MOST_KEPT = 2 * LARGE_POOL
MOST_LISTS = 4


class FreeSlots:
    """Of one pool's lists of candidates, which are replaced, never edited."""

    __slots__ = ("_found_little", "few")

    def __init__(self) -> None:
        self.few: list[FreeSlotCache] = []
        """One for each list of whose replicas hardly any has a slot."""
        self._found_little: Sequence[Replica] = ()
        """A list where that may be so."""

    def known(
        self, candidates: Sequence[Replica], demand: Demand, most: int = MOST_KEPT
    ) -> list[Replica] | None:
        """Of these replicas all that have a slot, if that is known of them, and no more than so many."""
        for few in self.few:
            if few.of is candidates:
                return few.look(demand) if len(few.known) <= most else None
        return None

    def all(self, candidates: Sequence[Replica], demand: Demand) -> list[Replica]:
        """All that have a slot, known or looked for."""
        known = self.known(candidates, demand) if self.few else None
        if known is not None:
            return known
        self._found_little = ()
        found = with_slot(candidates, demand)
        if len(found) <= MOST_KEPT:
            # Those of retries would stay until the lists are renewed, though nobody asks for them again.
            others = [few for few in self.few if few.of is not candidates]
            self.few = [*others[1 - MOST_LISTS :], FreeSlotCache(candidates, found)]
        return found

    def some(self, candidates: Sequence[Replica], demand: Demand, rng: Random) -> tuple[list[Replica], bool]:
        """Of a large pool, replicas that have a slot, all or a sample; none: nobody has. Whether these are
        all that have."""
        known = self.known(candidates, demand) if self.few else None
        if known is None:
            found = self._look_around(candidates, demand, rng)
            if len(found) >= ENOUGH:
                return found[:SAMPLE], False
            if found and self._found_little is not candidates:
                self._found_little = candidates
                return found, False
            known = self.all(candidates, demand)
        if len(known) <= SAMPLE:
            return known, True
        size = len(known)
        return [known[int(rng.random() * size)] for _ in range(SAMPLE)], False

    def _look_around(self, candidates: Sequence[Replica], demand: Demand, rng: Random) -> list[Replica]:
        draw, size = rng.random, len(candidates)
        found: list[Replica] = []
        for _ in range(LOOKS // SAMPLE):
            found += with_slot([candidates[int(draw() * size)] for _ in range(SAMPLE)], demand)
            if len(found) >= SAMPLE:
                break
        return found

    def note(self, replica: Replica) -> None:
        """A request has ended there."""
        for few in self.few:
            if replica in few.members:
                few.known[replica] = None

    def forget(self) -> None:
        """The lists are replaced, or others' requests have been counted anew."""
        self.few.clear()
        self._found_little = ()


class FreeSlotCache:
    """Of one list's replicas all that have a slot, and some that had one."""

    __slots__ = ("known", "members", "of")

    def __init__(self, of: Sequence[Replica], found: Sequence[Replica]) -> None:
        self.of = of
        self.members = frozenset(of)
        self.known = dict.fromkeys(found)

    def look(self, demand: Demand) -> list[Replica]:
        """Those that have a slot."""
        found = with_slot(self.known, demand)
        if len(found) < len(self.known):
            self.known = dict.fromkeys(found)
        return found
