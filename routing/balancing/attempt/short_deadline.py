"""Short deadline: an attempt whose client waits for less time than it takes to call a replica stalled.

That such requests are given up one after the other, with no byte between them, says how patient clients are,
and not that the replica would have answered none. So their silence is not judged.
"""

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome


class ShortDeadlineAttempt(Attempt):
    """Counts at its replica like any other."""

    __slots__ = ()

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0, *, at_once: bool = False) -> int:
        bucket = super().settle(outcome, now, output_tokens, at_once=at_once)
        self.replica.stall_exempt -= 1
        return bucket


def mark_short_deadline(attempt: Attempt) -> None:
    """The same attempt is one of these from now on. Right after it was begun, once."""
    attempt.__class__ = ShortDeadlineAttempt
    attempt.replica.stall_exempt += 1
