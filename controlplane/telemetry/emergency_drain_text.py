"""Emergency drains as text: replicas taken out at single proxies, over their admin listeners. Pure."""

from collections.abc import Sequence

from controlplane.telemetry import durations
from controlplane.telemetry.frames import DrainedAt
from routing.contract.telemetry import WorkerReport

_NAMED = 3


def words(places: Sequence[DrainedAt], everywhere: bool) -> str:
    """``emergency drain at proxy edge/812, for another 52 min``; empty: nowhere."""
    if not places:
        return ""
    if everywhere and len(places) > 1:
        longest = durations.words(max(place.expires_in_s for place in places))
        return f"emergency drain at all {len(places)} proxies, for another {longest} at most"
    named = [
        f"at proxy {place.proxy}, for another {time_left(place.expires_in_s)}" for place in places[:_NAMED]
    ]
    more = f" and at {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"emergency drain {' and '.join(named)}{more}"


def at_worker(report: WorkerReport) -> str:
    """``llm/a, for another 52 min``: the emergency drains at a worker's proxy; empty: nothing."""
    drained = [
        f"{one.fleet}/{one.replica}, for another {time_left(one.expires_in_s)}"
        for one in report.drained_by_hand
    ]
    more = f" and {len(drained) - _NAMED} more" if len(drained) > _NAMED else ""
    return "; ".join(drained[:_NAMED]) + more


def time_left(seconds: float) -> str:
    """Rounded to the nearest second."""
    return durations.words(seconds + 0.5)
