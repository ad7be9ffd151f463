"""Notices of resource limits of proxy workers: file descriptors, connections of clients. Pure.

Explicit state, ``now`` an argument.

A worker at its limit comes and goes from second to second. So the end is news only once it has lasted.
"""

from dataclasses import dataclass, field

from controlplane.telemetry.merge import Merged
from routing.contract.telemetry import WorkerReport

OVER_AFTER_S = 60.0


@dataclass(slots=True)
class NotifiedShortage:
    """One worker's shortage that is not over."""

    of: str
    """``descriptors`` or ``connections``."""
    seen_at: float
    """Monotonic seconds when it was last reported."""


@dataclass(slots=True)
class NotifiedShortages:
    """The notices published so far."""

    notified: dict[str, NotifiedShortage] = field(default_factory=dict)
    """By worker."""


@dataclass(frozen=True, slots=True)
class ShortageNotice:
    worker: str
    of: str
    """Empty: it is over."""
    text: str


def notices(state: NotifiedShortages, merged: Merged, now: float) -> list[ShortageNotice]:
    """What changed since the last call. ``now``: monotonic seconds.

    Only notices that are :func:`confirm`-ed are not published again. No more are published for a worker that
    is gone.
    """
    found = []
    for name in state.notified.keys() - merged.workers.keys():
        del state.notified[name]
    for name, worker in sorted(merged.workers.items()):
        of, notified = worker.report.short_of, state.notified.get(name)
        if of and (notified is None or notified.of != of):
            found.append(ShortageNotice(name, of, f"worker {name} {words(worker.report)}"))
        elif of and notified is not None:
            notified.seen_at = now
        elif notified is not None and now - notified.seen_at >= OVER_AFTER_S:
            found.append(ShortageNotice(name, "", f"worker {name} is no longer short of {notified.of}"))
    return found


def confirm(state: NotifiedShortages, item: ShortageNotice, now: float) -> None:
    """This piece of news has been written down."""
    if item.of:
        state.notified[item.worker] = NotifiedShortage(item.of, now)
    else:
        del state.notified[item.worker]


def words(report: WorkerReport) -> str:
    """What the worker does, for a sentence that begins with it."""
    if report.short_of == "connections":
        return f"refuses new connections: all {report.max_clients} places for clients are in use"
    return f"has {report.open_fds} of {report.max_fds} file descriptors in use"
