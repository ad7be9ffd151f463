"""Which fleets' queues being full is news: requests are refused for want of room. Pure: explicit state,
``now`` an argument.

A full queue has room for a moment with each answer. So the end is news only once it has lasted.
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
class FullQueueState:
    """What has been told so far."""

    told: dict[str, Episode] = field(default_factory=dict)
    """By fleet."""


@dataclass(frozen=True, slots=True)
class FullQueueNews:
    fleet: str
    full: bool
    """False: it is over."""
    text: str


def resumed(fleets: set[str], now: float) -> FullQueueState:
    """The state of a new leader, where these fleets were last told to have a full queue."""
    return FullQueueState({name: Episode(None, now) for name in fleets})


def news(state: FullQueueState, merged: Merged, now: float) -> list[FullQueueNews]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only news that are :func:`confirm`-ed are not told again. While no worker reports a fleet, what was told
    stands.
    """
    found = []
    for name, fleet in sorted(merged.fleets.items()):
        told = state.told.get(name)
        if fleet.queue.full_per_s:
            if told is None:
                found.append(FullQueueNews(name, True, _began(fleet)))
            else:
                told.seen_at = now
        elif told is not None and now - told.seen_at >= OVER_AFTER_S:
            found.append(FullQueueNews(name, False, _ended(name, told)))
    return found


def confirm(state: FullQueueState, item: FullQueueNews, now: float) -> None:
    """This piece of news has been written down, or its fleet is gone."""
    if item.full:
        state.told[item.fleet] = Episode(now, now)
    else:
        state.told.pop(item.fleet, None)


def _began(fleet: FleetNumbers) -> str:
    waiting = fleet.queue.waiting
    if not waiting:
        return f"{fleet.name} refuses requests: no replica has a place for more, and none waits"
    return f"the queue of {fleet.name} is full: {waiting} wait, requests are refused"


def _ended(name: str, told: Episode) -> str:
    text = f"the queue of {name} has room again"
    if told.began_at is None:
        return text
    return f"{text}; it was full for {durations.words(max(told.seen_at - told.began_at, 1.0))}"
