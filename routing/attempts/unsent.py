"""An attempt whose request is not all with its replica yet, because its client is still sending it.

A replica that has taken all that there is waits for that client as well: its silence says nothing about it,
and is judged from when the rest has come, or when it takes no more.
"""

from routing.attempts.attempt import Attempt
from routing.attempts.impatient import ImpatientAttempt


class UnsentAttempt(ImpatientAttempt):
    """Counts at its replica like any other, and is not judged either."""

    __slots__ = ()


def wait_for_client(attempt: Attempt) -> None:
    """It is the client's turn."""
    if type(attempt) is Attempt:
        attempt.__class__ = UnsentAttempt
        attempt.replica.unjudged += 1


def wait_for_replica(attempt: Attempt, now: float) -> None:
    """It is the replica's turn, from ``now`` on."""
    if type(attempt) is UnsentAttempt:
        replica = attempt.replica
        if replica.in_flight == replica.unjudged:
            replica.heard_at = now
        replica.unjudged -= 1
        attempt.__class__ = Attempt  # type: ignore[assignment]
