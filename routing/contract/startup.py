"""Startup time of replicas: from the start of their server to their first pass, and when one is expected.

What probes see of a start is where the replica stops being ready and where it is ready again. A server that
refuses connections, or answers that it is not ready, has been started anew or will be. One that is silent may
only be busy, so its return says nothing of a start. Nor does a first probe that passes: the server was there.
"""

from collections.abc import Iterable
from statistics import median

from routing.contract.probe_result import ProbeResult
from routing.contract.table import Health


def begins_start(old: Health, new: Health, result: ProbeResult) -> bool:
    """Whether a replica that enters ``new`` begins to start at this moment, as far as ``result`` can tell.

    One that is down because its startup budget is over has not: it began long ago, or its server never did.
    """
    if new == "down":
        return old != "checking" and not result.timed_out
    return new != "ready"


def measured_duration(
    old: Health, for_s: float, budget_s: float, *, starting: bool, failed: bool
) -> float | None:
    """How long a replica has taken that was ``old`` ``for_s`` seconds and is now ready; ``None``: not known.

    ``starting``: what :func:`begins_start` said when it entered ``old``. ``failed``: a probe failed since.
    ``budget_s``: its startup budget; what was away for longer was not starting all that time.
    """
    if not starting or for_s > budget_s or (old == "checking" and not failed):
        return None
    return for_s


def expected_duration(own: float | None, others: Iterable[float | None]) -> float | None:
    """Seconds that a replica's start will take: as the last one, else as its fleet's others in the middle."""
    if own is not None:
        return own
    known = [seconds for seconds in others if seconds is not None]
    return median(known) if known else None
