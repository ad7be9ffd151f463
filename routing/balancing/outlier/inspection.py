"""Response inspection: which responses are looked at as a whole, to see whether they are answers.

Theory. That a body is no answer at all is mostly seen for next to nothing, and so in every response: the
member in which its protocol puts the result does not occur. To read it as a whole costs some microseconds. So
that is done once in :data:`EVERY_S` at each replica, and with every response of one that is in doubt: its
speed is too good to be true, it has lately given none where others answered, or it is out for that.

Source: our own.
"""

from routing.balancing.outlier import ejection
from routing.balancing.replica.state import Replica

EVERY_S = 1.0
AFTER_MISSING_S = 15.0


def follow(replica: Replica, now: float) -> None:
    """On the slow timer."""
    replica.inspected = is_due(replica, now)


def done(replica: Replica, now: float) -> None:
    """A response of the replica was looked at as a whole."""
    replica.ejection.results.looked_at = now
    replica.inspected = is_in_doubt(replica, now)


def suspect(replica: Replica) -> None:
    """The replica has just given a response that was none."""
    replica.inspected = True


def is_due(replica: Replica, now: float) -> bool:
    """Whether the next response is to be looked at."""
    return now - replica.ejection.results.looked_at >= EVERY_S or is_in_doubt(replica, now)


def is_in_doubt(replica: Replica, now: float) -> bool:
    """Whether each response is to be looked at."""
    state = replica.ejection
    return (
        replica.doubt.since > 0
        or (state.until > 0 and state.cause == ejection.NO_RESULT)
        or now - state.results.missing_at < AFTER_MISSING_S
    )
