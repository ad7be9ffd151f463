"""Odds: the chance that one request is in time at a replica, from the predictions' own errors.

A request is in time if its error, the logarithm of what it takes over what was expected, is no more than that
of the time that is left over what is expected. How often errors were that small is known
(:mod:`routing.balancing.learning.residuals`).
"""

from math import log

from routing.balancing.learning.expected_time import expected_seconds
from routing.balancing.learning.residuals import Residuals
from routing.balancing.replica.state import Replica

_LEAST_S = 1e-9
_STEP = 0.25


class Odds:
    """Of one request."""

    __slots__ = (
        "_completion",
        "_first",
        "_first_by_load",
        "_first_left",
        "_left",
        "_work",
        "first_token_left_s",
        "left_s",
        "trust",
    )

    def __init__(
        self,
        work: float,
        trust: float,
        left_s: float,
        completion: Residuals | None,
        first_token_left_s: float,
        first: Residuals | None,
        first_alike: float,
        first_by_load: float,
    ) -> None:
        """``left_s``, ``first_token_left_s``: seconds until its end is due, and its first token; inf: never.
        ``completion``, ``first``: errors of predictions, ``None`` if that does not matter or is not known.
        ``first_alike``: logarithm of the first token's time in seconds per unit of work of the replica, if it
        is alone there; it grows with the power ``first_by_load`` of the requests there."""
        self.trust = trust
        """How much of differences between chances has come true, 0 to 1."""
        self.left_s = left_s
        self.first_token_left_s = first_token_left_s
        self._work = work
        self._completion, self._left = completion, log(left_s) if completion is not None else 0.0
        self._first, self._first_by_load = first, first_by_load
        self._first_left = log(first_token_left_s) - first_alike if first is not None else 0.0

    def times(self, replica: Replica) -> tuple[float, float]:
        """What is expected of it there, before any error: of its completion and its first token, each in a
        unit of its own, 0 if it does not matter."""
        # As strategies do, and for their reason: whoever takes the least of what was learned takes what is
        # too low by chance, unless that is left out of it.
        pace = replica.cost
        completion = expected_seconds(replica, self._work, pace=pace) if self._completion is not None else 0.0
        if self._first is None:
            return completion, 0.0
        return completion, pace * float((replica.load + 1) ** self._first_by_load)

    def chance(self, times: tuple[float, float], slack: float = 0.0) -> float:
        """The chance that all that is due comes in time where these are its :meth:`times`, 0 to 1. ``slack``:
        logarithm of how many times the time that is left there is."""
        chance = 1.0
        completion, first = self._completion, self._first
        if completion is not None:
            chance = completion.share_within(self._left + slack - log(times[0] or _LEAST_S))
        if first is not None:
            chance = min(chance, first.share_within(self._first_left + slack - log(times[1] or _LEAST_S)))
        return chance

    def at(self, replica: Replica) -> float:
        """The chance at a replica."""
        return self.chance(self.times(replica))

    def sensitivity(self, replica: Replica) -> float:
        """By how much the chance falls there if everything takes a little longer: its derivative by the
        logarithm of the time."""
        times = self.times(replica)
        return (self.chance(times, _STEP) - self.chance(times, -_STEP)) / (2 * _STEP)

    def met(self, seconds: float, first_token_s: float) -> bool:
        """Whether a request that took so long was in time."""
        return (self._completion is None or seconds <= self.left_s) and (
            self._first is None or first_token_s <= self.first_token_left_s
        )
