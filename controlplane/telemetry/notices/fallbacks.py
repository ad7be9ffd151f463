"""Notices of fallbacks: fleets whose requests another fleet serves. Explicit state, ``now`` an argument.

One request that falls back now and then is no news: an episode begins with :data:`LEAST` of them within
WINDOW_S, and is over when there was none for a while. Open episodes are kept in Redis, so that the next
leader does not report them again.
"""

from controlplane.models import Event
from controlplane.telemetry import durations
from controlplane.telemetry.merged_numbers import FleetNumbers
from controlplane.telemetry.notices.episodes import Episodes
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import FleetSubject, Notice, Notifier, Observed

EPISODES_KEY = "sy:live:falling-back"
"""Hash: fleet → ms of Redis's clock at which a request of it last fell back."""
OVER_AFTER_S = 60.0
LEAST = 3


class FallbackNotifier(Notifier[str]):
    """Episodes by fleet."""

    def __init__(self) -> None:
        self.episodes = Episodes[str](OVER_AFTER_S)
        self._kept = False
        """Whether Redis has some."""

    def restore(self, handover: LeaderHandover) -> None:
        for name, seen_at in handover.load(EPISODES_KEY).items():
            self.episodes.resume(name.decode(), seen_at)
        self._kept = bool(self.episodes.open)

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        found = []
        for name, fleet in sorted(observed.merged.fleets.items()):
            lately = sum(one.lately for one in fleet.fallbacks.values())
            if name in self.episodes.open:
                if lately:
                    self.episodes.open[name].seen_at = now
                elif self.episodes.over(name, now):
                    found.append(self._ended(name))
            elif lately >= LEAST:
                text = f"{name} falls back to {_most(fleet)}: it cannot serve all of its requests"
                found.append(Notice(name, True, Event.Kind.HEALTH, text, FleetSubject(name)))
        return found

    def _ended(self, name: str) -> Notice[str]:
        episode = self.episodes.open[name]
        text = f"{name} serves its requests itself again"
        if episode.began_at is not None:
            lasted = durations.words(max(episode.seen_at - episode.began_at, 1.0))
            text = f"{text}; it fell back for {lasted}"
        return Notice(name, False, Event.Kind.HEALTH, text, FleetSubject(name))

    def confirm(self, notice: Notice[str], now: float) -> None:
        if notice.begins:
            self.episodes.begin(notice.key, now)
        else:
            self.episodes.end(notice.key)

    def save(self, handover: LeaderHandover) -> None:
        times = {name.encode(): episode.seen_at for name, episode in self.episodes.open.items()}
        if times or self._kept:
            handover.replace(EPISODES_KEY, times, expire_s=int(OVER_AFTER_S) + 1)
            self._kept = bool(times)


def _most(fleet: FleetNumbers) -> str:
    """The fleet that serves most of them."""
    return max(fleet.fallbacks, key=lambda name: fleet.fallbacks[name].lately)
