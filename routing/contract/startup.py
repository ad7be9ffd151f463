"""Startup time of replicas: from the start of their server to their first pass, and when one is expected.

Probes see when a replica stops being ready and when it is ready again. A server that refuses connections, or
responds that it is not ready, is being restarted. A server whose probes time out may only be busy, so its
return is no measured start. Nor is a first probe that passes: the server was already running.
"""

from collections.abc import Iterable
from statistics import median

from routing.contract.probe_result import ProbeResult
from routing.contract.table import Health


def begins_start(old: Health, new: Health, result: ProbeResult) -> bool:
    """Whether a replica that enters ``new`` starts at this moment, judged by ``result``.

    Not if it is down because its startup budget is over: it started long ago, or its server never did.
    """
    if new == "down":
        return old != "checking" and not result.inconclusive
    return new != "ready"


def measured_duration(
    old: Health, for_s: float, budget_s: float, *, starting: bool, failed: bool
) -> float | None:
    """Startup time of a replica that was ``old`` for ``for_s`` seconds and is now ready; ``None``: not known.

    ``starting``: what :func:`begins_start` said when it entered ``old``. ``failed``: a probe failed since.
    ``budget_s``: its startup budget. A replica that was away for longer was not starting all that time.
    """
    if not starting or for_s > budget_s or (old == "checking" and not failed):
        return None
    return for_s


def usual_duration(starts: Iterable[float | None]) -> float | None:
    """Startup time in seconds that is expected of a replica that has none of its own: the median of its
    fleet's last starts."""
    known = [seconds for seconds in starts if seconds is not None]
    return median(known) if known else None


def expected_duration(own: float | None, usual: float | None) -> float | None:
    """Expected startup time in seconds: that of the last start, else what is usual in the fleet."""
    return usual if own is None else own
