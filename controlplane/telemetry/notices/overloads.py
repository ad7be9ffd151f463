"""Notices of overload: fleets that refuse requests for want of slots.

Pure, but for ``restore``: ``now`` is an argument.

An overloaded fleet refuses some requests and accepts others, second by second. So its end is noted once it
has lasted.
"""

from controlplane.models import Event
from controlplane.telemetry import durations
from controlplane.telemetry.merged_numbers import FleetNumbers
from controlplane.telemetry.notices import event_log
from controlplane.telemetry.notices.episodes import Episode, Episodes
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import FleetSubject, Notice, Notifier, Observed

OVER_AFTER_S = 60.0
REFUSING = "refusing"
BACK = "ready"


class OverloadNotifier(Notifier[str]):
    """Episodes by fleet. While no worker reports a fleet, the published state stays."""

    def __init__(self) -> None:
        self.episodes = Episodes[str](OVER_AFTER_S)

    def restore(self, handover: LeaderHandover) -> None:
        """Of fleets whose newest such event says that they refuse. Raises django.db.Error."""
        rows = event_log.with_newest_state(Event.Kind.LIMIT, REFUSING, of="fleet", among=[REFUSING, BACK])
        for name in rows.values_list("fleet__name", flat=True):
            self.episodes.resume(str(name), handover.now)

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        found = []
        for name, fleet in sorted(observed.merged.fleets.items()):
            episode = self.episodes.open.get(name)
            if fleet.queue.refuses:
                if episode is None:
                    found.append(_notice(name, True, _began(fleet)))
                else:
                    episode.seen_at = now
            elif episode is not None and self.episodes.over(name, now):
                found.append(_notice(name, False, _ended(name, episode)))
        return found

    def confirm(self, notice: Notice[str], now: float) -> None:
        if notice.begins:
            self.episodes.begin(notice.key, now)
        else:
            self.episodes.end(notice.key)


def _notice(fleet: str, begins: bool, text: str) -> Notice[str]:
    state = REFUSING if begins else BACK
    return Notice(fleet, begins, Event.Kind.LIMIT, text, FleetSubject(fleet), state)


def _began(fleet: FleetNumbers) -> str:
    queue = fleet.queue
    if queue.late_per_s > queue.full_per_s:
        return (
            f"{fleet.name} refuses requests: the wait exceeds, or would exceed, the queue timeout; "
            f"{queue.waiting} waiting"
        )
    if not queue.waiting:
        return f"{fleet.name} refuses requests: no replica has a free slot, and none is queued"
    return f"{fleet.name} refuses requests: its queue is full, {queue.waiting} waiting"


def _ended(name: str, episode: Episode) -> str:
    text = f"{name} no longer refuses requests"
    if episode.began_at is None:
        return text
    return f"{text}; it did so for {durations.words(max(episode.seen_at - episode.began_at, 1.0))}"
