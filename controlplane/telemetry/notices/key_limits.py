"""Notices of rate limits: a client key reached one, once an episode. Explicit state, ``now`` an argument.

Of a key at its limit some requests are refused and others accepted, second by second. So an episode is over
only when nothing was refused for OVER_AFTER_S. Open episodes are kept in Redis, so that the next leader does
not report them again.
"""

from collections.abc import Iterable

from controlplane.models import Event
from controlplane.telemetry.key_traffic import Limit
from controlplane.telemetry.notices.episodes import Episodes
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed

EPISODES_KEY = "sy:live:limited"
"""Hash: key id and limit → ms of Redis's clock at which the limit last refused a request."""

OVER_AFTER_S = 300.0
WORDS = {
    "requests_per_minute": ("{} request per minute", "{} requests per minute"),
    "max_concurrency": ("{} request at one time", "{} requests at one time"),
    "tokens_per_minute": ("{} token per minute", "{} tokens per minute"),
}
"""Of one, of several."""


class KeyLimitNotifier(Notifier[Limit]):
    """Episodes by key and limit. Nothing is published of their end."""

    def __init__(self) -> None:
        self.episodes = Episodes[Limit](OVER_AFTER_S)

    def restore(self, handover: LeaderHandover) -> None:
        for field, refused_at in handover.load(EPISODES_KEY).items():
            key_id, _, name = field.decode().partition(" ")
            self.episodes.resume((key_id, name), refused_at)

    def pending(self, observed: Observed, now: float) -> list[Notice[Limit]]:
        for limit in [limit for limit in self.episodes.open if self.episodes.over(limit, now)]:
            self.episodes.end(limit)
        found = []
        for key in observed.keys:
            numbers = observed.merged.keys.get(str(key.id))
            for name in numbers.limited if numbers is not None else ():
                limit, value = (str(key.id), name), key.limits.get(name)
                if limit in self.episodes.open:
                    self.episodes.open[limit].seen_at = now
                elif value is not None:  # else lifted meanwhile
                    text = f"key {key.name} reached its limit of {words(name, value)}"
                    found.append(Notice(limit, True, Event.Kind.LIMIT, text))
        return found

    def confirm(self, notice: Notice[Limit], now: float) -> None:
        self.episodes.begin(notice.key, now)

    def forget(self, changed: Iterable[Limit]) -> None:
        """These limits are others now: reaching them is another episode."""
        for limit in changed:
            self.episodes.end(limit)

    def save(self, handover: LeaderHandover) -> None:
        if self.episodes.open:
            times = {
                " ".join(limit).encode(): episode.seen_at for limit, episode in self.episodes.open.items()
            }
            handover.replace(EPISODES_KEY, times, expire_s=int(OVER_AFTER_S) + 1)


def words(name: str, value: int) -> str:
    """``"60 requests per minute"``."""
    return WORDS[name][value != 1].format(f"{value:,}")
