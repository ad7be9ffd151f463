"""How long replicas take from the start of their server to their first pass, and when one can be expected.

What probes see of a start is where the replica stops being ready and where it is ready again. A server that
refuses connections, or answers that it is not ready, has been started anew or will be. One that is silent may
only be busy, so its return says nothing of a start. Nor does a first probe that passes: the server was there.
"""

from collections.abc import Iterable
from statistics import median

from routing.contract.table import Health
from routing.contract.verdict import Verdict


def starts(old: Health, new: Health, verdict: Verdict) -> bool:
    """Whether a replica that enters ``new`` begins to start at this moment, as far as ``verdict`` can tell.

    One that is down because its startup budget is over has not: it began long ago, or its server never did.
    """
    if new == "down":
        return old != "checking" and not verdict.timed_out
    return new != "ready"


def took(old: Health, for_s: float, budget_s: float, *, starting: bool, failed: bool) -> float | None:
    """How long a replica has taken that was ``old`` ``for_s`` seconds and is now ready; ``None``: not known.

    ``starting``: what :func:`starts` said when it entered ``old``. ``failed``: a probe has failed since.
    ``budget_s``: its startup budget; what was away for longer was not starting all that time.
    """
    if not starting or for_s > budget_s or (old == "checking" and not failed):
        return None
    return for_s


def expected(own: float | None, others: Iterable[float | None]) -> float | None:
    """Seconds that a replica's start will take: as the last one, else as its fleet's others in the middle."""
    if own is not None:
        return own
    known = [seconds for seconds in others if seconds is not None]
    return median(known) if known else None
