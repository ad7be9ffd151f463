"""Which shortages of proxy workers are news: of descriptors, of places for clients. Pure: explicit state,
``now`` an argument.

A worker at its limit comes and goes from second to second. So the end is news only once it has lasted.
"""

from dataclasses import dataclass, field

from controlplane.telemetry.merge import Merged
from routing.contract.telemetry import WorkerReport

OVER_AFTER_S = 60.0


@dataclass(slots=True)
class Told:
    """One worker's shortage that is not over."""

    of: str
    """``descriptors`` or ``connections``."""
    seen_at: float
    """Monotonic seconds when it was last reported."""


@dataclass(slots=True)
class ShortageState:
    """What has been told so far."""

    told: dict[str, Told] = field(default_factory=dict)
    """By worker."""


@dataclass(frozen=True, slots=True)
class ShortageNews:
    worker: str
    of: str
    """Empty: it is over."""
    text: str


def news(state: ShortageState, merged: Merged, now: float) -> list[ShortageNews]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only news that are :func:`confirm`-ed are not told again. Of a worker that is gone nothing more is told.
    """
    found = []
    for name in state.told.keys() - merged.workers.keys():
        del state.told[name]
    for name, worker in sorted(merged.workers.items()):
        of, told = worker.report.short_of, state.told.get(name)
        if of and (told is None or told.of != of):
            found.append(ShortageNews(name, of, f"worker {name} {words(worker.report)}"))
        elif of and told is not None:
            told.seen_at = now
        elif told is not None and now - told.seen_at >= OVER_AFTER_S:
            found.append(ShortageNews(name, "", f"worker {name} is no longer short of {told.of}"))
    return found


def confirm(state: ShortageState, item: ShortageNews, now: float) -> None:
    """This piece of news has been written down."""
    if item.of:
        state.told[item.worker] = Told(item.of, now)
    else:
        del state.told[item.worker]


def words(report: WorkerReport) -> str:
    """What the worker does, for a sentence that begins with it."""
    if report.short_of == "connections":
        return f"refuses new connections: all {report.max_clients} places for clients are in use"
    return f"has {report.open_fds} of {report.max_fds} file descriptors in use"
