"""Monitored attempt: one of which it is asked, in case it succeeds, whose request it was.

Pools begin such attempts only while failures are held against a client rather than against a replica
(:mod:`routing.balancing.outlier.poison_clients`); and what is sent to another replica after one has failed is
always one."""

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome


class MonitoredAttempt(Attempt):
    """Counts at its replica like any other."""

    __slots__ = ()

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0, *, at_once: bool = False) -> int:
        bucket = super().settle(outcome, now, output_tokens, at_once=at_once)
        source = self.source
        if outcome is Outcome.SUCCESS and source is not None:
            self._listener.succeeded(source, self.replica, now)
        return bucket


def monitor_attempt(attempt: Attempt) -> None:
    """The same attempt is one of these from now on. Right after it was begun, once."""
    attempt.__class__ = MonitoredAttempt


def stop_monitoring(attempt: Attempt) -> None:
    """It is one like any other again."""
    attempt.__class__ = Attempt
