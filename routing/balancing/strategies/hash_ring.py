"""Hash ring (consistent hashing): maps keys to replicas, the same way in every worker and proxy.

Theory. Replicas have points on a circle of 2⁶⁴ positions, and a key belongs to the replica with the next
point. A replica that joins takes only the keys before its points, about its share of all keys; one that
leaves gives its keys to the others. With one position (probe) per key, even shares need hundreds of points
per replica. Here a key has several positions and belongs to the point nearest to any of them (multi-probe).
Then few points suffice: of 100 replicas with 16 points each, the largest share is 1.24 times the mean; one
probe with 64 points gives 1.31.

The number of points follows the weight. Replicas that are not candidates (unhealthy, or tried before) are
skipped. That moves the same keys as if they had left, without a new ring. The ring changes only when members
or weights change.

Sources: Karger et al., "Consistent Hashing and Random Trees" (STOC 1997); Appleton and O'Reilly, "Multi-probe
consistent hashing" (arXiv 1505.00062).
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import log

from routing.balancing.replica.state import Replica

POINTS = 16
"""Points of a replica of about the mean weight."""
_CIRCLE = (1 << 64) - 1
_PROBES = (1, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd numbers: a key is multiplied by each to get its positions."""
_NEAR, _STRETCH = 96, 16
"""Points that are searched for another replica at most, and how many at a time."""
_BUILT_AT_ONCE, _OWNED_AT_ONCE = 100, 8000
"""Replicas and points: some 1 ms each."""
_STEP = 16.0
"""Factor by which the mean weight may grow before a weight gets fewer points. Keys move then, so it must be
rare."""


class HashRing:
    """Points of all candidates ever seen that have not left the fleet."""

    __slots__ = ("_owned", "_owners", "_per_weight", "_places", "_points", "_weights")

    def __init__(self) -> None:
        self._places: list[int] = []
        """Positions of the points, sorted."""
        self._owners: dict[int, Replica] = {}
        """Owner by position."""
        self._owned: list[Replica] = []
        """Owners in the order of the positions."""
        self._points: dict[Replica, list[int]] = {}
        self._weights: dict[Replica, float] = {}
        self._per_weight = float(POINTS)

    @classmethod
    def built(cls, members: Iterable[tuple[Replica, float]]) -> Generator[None, None, "HashRing"]:
        """A ring of these replicas with these weights, in steps: thousands at once take tens of
        milliseconds."""
        ring = cls()
        ring._weights = weights = {replica: weight for replica, weight in members if weight > 0}
        if not weights:
            return ring
        ring._per_weight = _points_per_weight(weights)
        replicas = list(weights)
        runs: list[list[int]] = []
        for at in range(0, len(replicas), _BUILT_AT_ONCE):
            ring._places = []
            ring._add(replicas[at : at + _BUILT_AT_ONCE])
            runs.append(ring._places)
            yield
        while len(runs) > 1:
            merged = []
            for at in range(0, len(runs), 2):
                run = [*runs[at], *(runs[at + 1] if at + 1 < len(runs) else ())]
                run.sort()  # of two that are sorted: fast with Python's sort
                merged.append(run)
                yield
            runs = merged
        ring._places = runs[0]
        for at in range(0, len(ring._places), _OWNED_AT_ONCE):
            ring._owned += map(ring._owners.__getitem__, ring._places[at : at + _OWNED_AT_ONCE])
            yield
        return ring

    def take(self, candidates: Sequence[Replica]) -> None:
        """Give these replicas their points, by their present weights."""
        weights = self._weights
        changed = [one for one in candidates if weights.get(one) != one.spec.weight]
        gone = [one for one in weights if one.leaving] if len(weights) > len(candidates) else []
        if not changed and not gone:
            return
        for replica in gone:
            del weights[replica]
        weights.update((one, one.spec.weight) for one in changed)
        per_weight = _points_per_weight(weights)
        if per_weight != self._per_weight:
            self._per_weight = per_weight
            changed = list(weights)
        self._withdraw((*gone, *changed))
        self._add(changed)
        self._owned = list(map(self._owners.__getitem__, self._places))

    def _withdraw(self, replicas: Iterable[Replica]) -> None:
        owners, before = self._owners, len(self._owners)
        for replica in replicas:
            for place in self._points.pop(replica, ()):
                # A replica that left may have come back as another object, with the same points.
                if owners.get(place) is replica:
                    del owners[place]
        if len(owners) < before:
            self._places = [place for place in self._places if place in owners]

    def _add(self, replicas: Iterable[Replica]) -> None:
        owners, new = self._owners, []
        for replica in replicas:
            self._points[replica] = points = points_of(replica.uid, self._weights[replica] * self._per_weight)
            new += [place for place in points if place not in owners]
            owners.update(dict.fromkeys(points, replica))
        self._places += new
        # Few new ones after many sorted ones: fast with Python's sort.
        self._places.sort()

    def nearest(self, key: int, among: Container[Replica]) -> int:
        """Index of the point nearest to any of a key's positions, among points of these replicas."""
        places, owned = self._places, self._owned
        size = len(places)
        nearest, best = 0, _CIRCLE + 1
        for probe in _PROBES:
            place = key * probe & _CIRCLE
            # Counted from the end on, so that the first point follows the last one.
            at = bisect_left(places, place) - size
            while owned[at] not in among:
                at += 1
            distance = (places[at] - place) & _CIRCLE
            if distance < best:
                nearest, best = at, distance
        return nearest % size

    def after(self, place: int) -> int:
        """Index of the point that follows a position."""
        return bisect_left(self._places, place) % len(self._places)

    def owner(self, point: int) -> Replica:
        """Replica that owns a point."""
        return self._owned[point]

    def onward(self, point: int, among: Container[Replica]) -> Iterator[Replica]:
        """Owners of a point and of the following ones, once round the ring; some several times."""
        owned = self._owned
        for at in range(point - len(owned), point):
            replica = owned[at]
            if replica in among:
                yield replica

    def next_ones(self, place: int, count: int, among: Container[Replica]) -> list[Replica]:
        """The next ``count`` replicas after a position, in order."""
        owned, point = self._owned, self.after(place)
        found: list[Replica] = []
        for at in range(point - len(owned), point):
            replica = owned[at]
            if replica in among and replica not in found:
                found.append(replica)
                if len(found) == count:
                    break
        return found

    def some_after(
        self, point: int, among: Container[Replica], wanted: Callable[[Iterable[Replica]], list[Replica]]
    ) -> list[Replica]:
        """The first wanted replicas after a point: at least one or two, unless none is near."""
        found: list[Replica] = []
        near = self._owned[point : point + _NEAR]
        near += self._owned[: _NEAR - len(near)]
        for at in range(0, _NEAR, _STRETCH):
            found += wanted(near[at : at + _STRETCH])
            if len(found) > 1:
                break
        return [one for one in dict.fromkeys(found) if one in among]


def _points_per_weight(weights: Mapping[Replica, float]) -> float:
    mean = sum(weights.values()) / len(weights)
    return POINTS * _STEP ** -round(log(mean, _STEP))


def points_of(uid: str, points: float) -> list[int]:
    """Positions on the circle, ``points`` rounded, at least one. Longer lists begin with shorter ones."""
    count, places = max(1, round(points)), b""
    for number in range((count + 7) // 8):
        places += blake2b(b"%d/%b" % (number, uid.encode())).digest()
    return [int.from_bytes(places[at : at + 8], "big") for at in range(0, 8 * count, 8)]
