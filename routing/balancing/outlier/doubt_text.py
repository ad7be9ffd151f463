"""Doubt, in words: why a replica that is eligible gets little, is tried out, or has no more than its share.

For people, on pages and in the API. A replica that is ejected has the reason of its ejection instead.
"""

from routing.balancing.outlier import soft_ejection, speed_doubt, starvation
from routing.balancing.replica.state import Replica

BACK_FOR_S = 10.0
"""How long it is said of a replica that it is back."""


def words(replica: Replica, now: float) -> str:
    """Empty: it is as any other."""
    state = replica.ejection
    if state.until:
        return ""
    if known := soft_ejection.words(replica, now) or speed_doubt.words(replica):
        return known
    if state.results.is_undecided:
        return (
            "in doubt: it has just given what is no answer of its protocol; it gets its fair share meanwhile"
        )
    if state.failures or replica.picked < state.progress.doubted_until:
        failures = state.failures
        times = "request" if failures == 1 else f"{failures} requests"
        what = f"its last {times} failed" if failures else "it was silent"
        patience_s = starvation.AFTER_FAILURE_S if failures else starvation.AFTER_SILENCE_S
        return f"in doubt: {what}; a request tries it out when it has had none for {patience_s:g} s"
    back_s = now - state.returned_at
    return f"back for {back_s:.0f} s" if state.returned_at and 0 <= back_s < BACK_FOR_S else ""
