"""Which fleets' refusing requests for want of places is news. Pure: explicit state, ``now`` an argument.

A fleet with too much to do refuses some, takes some, from second to second. So the end is news only once it
has lasted.
"""

from dataclasses import dataclass, field

from controlplane.telemetry import durations
from controlplane.telemetry.merge import FleetNumbers, Merged

OVER_AFTER_S = 60.0


@dataclass(slots=True)
class Episode:
    """A time during which a fleet refuses requests, again and again."""

    began_at: float | None
    """Monotonic seconds; ``None``: another conductor has told it."""
    seen_at: float
    """When it last refused any."""


@dataclass(slots=True)
class OverloadState:
    """What has been told so far."""

    told: dict[str, Episode] = field(default_factory=dict)
    """By fleet."""


@dataclass(frozen=True, slots=True)
class OverloadNews:
    fleet: str
    begins: bool
    """False: it is over."""
    text: str


def resumed(fleets: set[str], now: float) -> OverloadState:
    """The state of a new leader, where these fleets were last told to refuse requests."""
    return OverloadState({name: Episode(None, now) for name in fleets})


def news(state: OverloadState, merged: Merged, now: float) -> list[OverloadNews]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only news that are :func:`confirm`-ed are not told again. While no worker reports a fleet, what was told
    stands.
    """
    found = []
    for name, fleet in sorted(merged.fleets.items()):
        told = state.told.get(name)
        if fleet.queue.refuses:
            if told is None:
                found.append(OverloadNews(name, True, _began(fleet)))
            else:
                told.seen_at = now
        elif told is not None and now - told.seen_at >= OVER_AFTER_S:
            found.append(OverloadNews(name, False, _ended(name, told)))
    return found


def confirm(state: OverloadState, item: OverloadNews, now: float) -> None:
    """This piece of news has been written down, or its fleet is gone."""
    if item.begins:
        state.told[item.fleet] = Episode(now, now)
    else:
        state.told.pop(item.fleet, None)


def _began(fleet: FleetNumbers) -> str:
    queue = fleet.queue
    if queue.late_per_s > queue.full_per_s:
        return f"{fleet.name} refuses requests: their wait is, or would be, too long; {queue.waiting} wait"
    if not queue.waiting:
        return f"{fleet.name} refuses requests: no replica has a place for more, and none waits"
    return f"{fleet.name} refuses requests: its queue is full, {queue.waiting} wait"


def _ended(name: str, told: Episode) -> str:
    text = f"{name} refuses requests no longer"
    if told.began_at is None:
        return text
    return f"{text}; it did for {durations.words(max(told.seen_at - told.began_at, 1.0))}"
