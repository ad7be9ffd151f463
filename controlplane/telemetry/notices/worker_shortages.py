"""Notices of resource limits of proxy workers: file descriptors, connections of clients. Pure.

Explicit state, ``now`` an argument.

A worker reaches and leaves its limit from second to second. So the end is noted only once it has lasted.
"""

from controlplane.models import Event
from controlplane.telemetry.notices.episodes import Episodes
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed
from routing.contract.telemetry import WorkerReport

OVER_AFTER_S = 60.0


class ShortageNotifier(Notifier[str]):
    """Episodes by worker; their detail: ``descriptors`` or ``connections``, where another one is another
    episode. No more notices are published for a worker that is gone. A new leader begins with nothing."""

    def __init__(self) -> None:
        self.episodes = Episodes[str](OVER_AFTER_S)

    def pending(self, observed: Observed, now: float) -> list[Notice[str]]:
        workers = observed.merged.workers
        for name in self.episodes.open.keys() - workers.keys():
            self.episodes.end(name)
        found = []
        for name, worker in sorted(workers.items()):
            resource, episode = worker.report.short_of, self.episodes.open.get(name)
            if resource and (episode is None or episode.detail != resource):
                text = f"worker {name} {words(worker.report)}"
                found.append(Notice(name, True, Event.Kind.SYSTEM, text, detail=resource))
            elif resource and episode is not None:
                episode.seen_at = now
            elif episode is not None and self.episodes.over(name, now):
                text = f"worker {name} is no longer short of {episode.detail}"
                found.append(Notice(name, False, Event.Kind.SYSTEM, text))
        return found

    def confirm(self, notice: Notice[str], now: float) -> None:
        if notice.begins:
            self.episodes.begin(notice.key, now, notice.detail)
        else:
            self.episodes.end(notice.key)


def words(report: WorkerReport) -> str:
    """What the worker does, for a sentence that begins with it."""
    if report.short_of == "connections":
        return f"closes or refuses client connections: it may have {report.max_clients} at a time"
    return f"has {report.open_fds} of {report.max_fds} file descriptors in use"
