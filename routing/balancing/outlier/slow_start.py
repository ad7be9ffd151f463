"""Slow start: a replica that has just become ready gets a growing share of its weight.

Theory. A new replica is empty. So every load-based strategy would send it the next hundred requests while its
caches are cold. Its effective weight, the inverse of its score and its slots therefore grow from 10 % to
100 %, over 30 s by default and never less than three mean response times of the fleet. They grow with the
square of the time. Along a straight line, an idle replica is picked more often than its weight says: up to
35 % of its fair share in the first quarter (in simulation). With the square it is at most 25 %, and half of
that with :mod:`routing.balancing.outlier.slow_start_pacing`, where the fleet is nearly full.

Source: HAProxy and nginx ``slowstart``; Envoy's slow start mode, which has a floor of 10 % as well.
"""

from routing.balancing.replica.state import Replica

LEAST = 0.1
ANSWERS = 3.0


def duration_s(least_s: float, mean_answer_s: float) -> float:
    """How long it takes in a fleet of such responses. ``least_s`` 0: there is none."""
    return max(least_s, ANSWERS * mean_answer_s) if least_s else 0.0


def ramp(age_s: float, over_s: float) -> float:
    """Share of full weight, 0.1 to 1, so long after the replica became ready. ``over_s`` 0: no ramp."""
    if over_s <= 0 or age_s >= over_s:
        return 1.0
    return max(LEAST, LEAST + (1 - LEAST) * (age_s / over_s) ** 2)


def advance(replica: Replica, now: float, over_s: float) -> float:
    """A replica's share at ``now``; begins its ramp if one is due, ends it when it is through."""
    state = replica.slow_start
    if state.pending:
        state.pending = False
        state.over_share = 0.0
        state.picked_before = replica.picked
        state.started = now
    if state.started is None:
        return 1.0
    share = ramp(now - state.started, over_s)
    if share >= 1.0:
        state.started = None
    return share


def slots(concurrency: int | None, share: float) -> int | None:
    """Concurrency limit during the ramp, at least 1; ``None`` stays ``None``."""
    return None if concurrency is None else max(1, int(concurrency * share))
