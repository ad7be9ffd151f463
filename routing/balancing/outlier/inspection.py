"""Response inspection: which responses are looked at as a whole, to see whether they are answers.

Theory. To look at a body costs some microseconds, so it is not done with every one. With each slow timer, ten
times a second, the next response of each replica is looked at: a replica that begins to respond with what is
no answer is found within a tenth of a second, at any rate of requests. In a large pool it is less often, so
that at most 200 responses a second are looked at. Once a replica is in doubt, each of its responses is: its
speed is too good to be true, it has lately given none where others answered, in any worker of the host, or it
is out for that.

Source: our own.
"""

from routing.balancing.outlier import ejection
from routing.balancing.replica.state import Replica
from routing.shared.shm_counters import MISSING_RESULTS

EACH_S = 0.005
"""A replica's part of the time between two looks at it."""
TIMER_S = 0.1
AFTER_MISSING_S = 15.0


def follow(replica: Replica, replicas: int, now: float) -> bool:
    """On the slow timer. ``replicas``: how many there are. Returns whether another worker has had a response
    that was none."""
    results, cells, is_told = replica.ejection.results, replica.cells, False
    if cells is not None and cells.siblings:
        missing = int(cells.siblings_sum(MISSING_RESULTS))
        if missing > results.siblings_missing:
            results.missing_at, is_told = now, True
        results.siblings_missing = missing
    if now - results.looked_at >= replicas * EACH_S - TIMER_S or is_in_doubt(replica, now):
        replica.inspected = True
    return is_told


def done(replica: Replica, now: float) -> None:
    """A response of the replica was looked at as a whole."""
    replica.ejection.results.looked_at = now
    replica.inspected = is_in_doubt(replica, now)


def suspect(replica: Replica) -> None:
    """The replica has just given a response that was none."""
    replica.inspected = True


def is_in_doubt(replica: Replica, now: float) -> bool:
    """Whether each response is to be looked at."""
    state = replica.ejection
    return (
        replica.doubt.since > 0
        or (state.until > 0 and state.cause == ejection.NO_RESULT)
        or now - state.results.missing_at < AFTER_MISSING_S
    )
