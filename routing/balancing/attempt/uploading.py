"""Upload in progress: an attempt whose client is still sending its request.

A replica that has taken all that there is waits for that client as well: its silence says nothing about it,
and is judged from when the rest has come, or when it takes no more.
"""

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.short_deadline import ShortDeadlineAttempt


class UploadingAttempt(ShortDeadlineAttempt):
    """Counts at its replica like any other, and is not judged either."""

    __slots__ = ()


def wait_for_client(attempt: Attempt) -> None:
    """It is the client's turn."""
    if type(attempt) is Attempt:
        attempt.__class__ = UploadingAttempt
        attempt.replica.stall_exempt += 1


def wait_for_replica(attempt: Attempt, now: float) -> None:
    """It is the replica's turn, from ``now`` on."""
    if type(attempt) is UploadingAttempt:
        replica = attempt.replica
        if replica.in_flight == replica.stall_exempt:
            replica.last_heard_at = now
        replica.stall_exempt -= 1
        attempt.__class__ = Attempt  # type: ignore[assignment]
