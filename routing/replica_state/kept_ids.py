"""Which replica keeps what it made: id → :class:`Place`, within bounds.

Model servers keep stored responses in their own memory, so a later request that names one has to come back.
At most ``MOST_IDS`` ids of ``LONGEST_ID`` characters are remembered, those that were named or made last, each
for ``KEPT_S`` after that; what is forgotten here is unknown, not wrong.
"""

from collections import OrderedDict
from typing import NamedTuple

MOST_IDS = 65_536
LONGEST_ID = 128
KEPT_S = 86_400.0


class Place(NamedTuple):
    """A replica of a fleet."""

    fleet: str
    uid: str
    replica: str
    """Its name when it was learned, for people."""


class KeptIds:
    """Times are monotonic seconds."""

    __slots__ = ("_by_id", "_most", "_places")

    def __init__(self, most: int = MOST_IDS) -> None:
        self._most = most
        self._by_id: OrderedDict[str, tuple[Place, float]] = OrderedDict()
        """In the order of last use, with the time of that."""
        self._places: dict[Place, Place] = {}
        """Each place once, however many ids it keeps."""

    def __len__(self) -> int:
        return len(self._by_id)

    def learn(self, name: str, place: Place, now: float) -> bool:
        """Whether it is remembered: an id that is too long, or empty, is not."""
        if not 0 < len(name) <= LONGEST_ID:
            return False
        by_id = self._by_id
        by_id[name] = (self._places.setdefault(place, place), now)
        by_id.move_to_end(name)
        while len(by_id) > self._most or now - next(iter(by_id.values()))[1] > KEPT_S:
            by_id.popitem(last=False)
        if len(self._places) > self._most:
            self._places.clear()
        return True

    def all(self) -> list[tuple[str, Place]]:
        """In the order of last use."""
        return [(name, place) for name, (place, _) in self._by_id.items()]

    def find(self, name: str, now: float) -> Place | None:
        """Who keeps it; ``None``: not known here."""
        found = self._by_id.get(name)
        if found is None:
            return None
        place, used = found
        if now - used > KEPT_S:
            del self._by_id[name]
            return None
        self._by_id[name] = (place, now)
        self._by_id.move_to_end(name)
        return place
