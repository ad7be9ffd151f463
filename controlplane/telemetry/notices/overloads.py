"""Notices of overload: fleets that refuse requests for want of slots. Pure: ``now`` is an argument.

A fleet with too much to do refuses some, takes some, from second to second. So the end is news only once it
has lasted.
"""

from dataclasses import dataclass, field

from controlplane.telemetry import durations
from controlplane.telemetry.merge import FleetNumbers, Merged

OVER_AFTER_S = 60.0


@dataclass(slots=True)
class OverloadEpisode:
    """A time during which a fleet refuses requests, again and again."""

    began_at: float | None
    """Monotonic seconds; ``None``: another conductor has published it."""
    seen_at: float
    """When it last refused any."""


@dataclass(slots=True)
class NotifiedOverloads:
    """The notices published so far."""

    notified: dict[str, OverloadEpisode] = field(default_factory=dict)
    """By fleet."""


@dataclass(frozen=True, slots=True)
class OverloadNotice:
    fleet: str
    begins: bool
    """False: it is over."""
    text: str


def resumed(fleets: set[str], now: float) -> NotifiedOverloads:
    """The state of a new leader: these fleets were last published as refusing requests."""
    return NotifiedOverloads({name: OverloadEpisode(None, now) for name in fleets})


def notices(state: NotifiedOverloads, merged: Merged, now: float) -> list[OverloadNotice]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only news that are :func:`confirm`-ed are not told again. While no worker reports a fleet, what was told
    stands.
    """
    found = []
    for name, fleet in sorted(merged.fleets.items()):
        notified = state.notified.get(name)
        if fleet.queue.refuses:
            if notified is None:
                found.append(OverloadNotice(name, True, _began(fleet)))
            else:
                notified.seen_at = now
        elif notified is not None and now - notified.seen_at >= OVER_AFTER_S:
            found.append(OverloadNotice(name, False, _ended(name, notified)))
    return found


def confirm(state: NotifiedOverloads, item: OverloadNotice, now: float) -> None:
    """This piece of news has been written down, or its fleet is gone."""
    if item.begins:
        state.notified[item.fleet] = OverloadEpisode(now, now)
    else:
        state.notified.pop(item.fleet, None)


def _began(fleet: FleetNumbers) -> str:
    queue = fleet.queue
    if queue.late_per_s > queue.full_per_s:
        return f"{fleet.name} refuses requests: their wait is, or would be, too long; {queue.waiting} wait"
    if not queue.waiting:
        return f"{fleet.name} refuses requests: no replica has a place for more, and none waits"
    return f"{fleet.name} refuses requests: its queue is full, {queue.waiting} wait"


def _ended(name: str, notified: OverloadEpisode) -> str:
    text = f"{name} refuses requests no longer"
    if notified.began_at is None:
        return text
    return f"{text}; it did for {durations.words(max(notified.seen_at - notified.began_at, 1.0))}"
