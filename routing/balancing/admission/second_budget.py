"""Budget of second attempts: requests that are sent to another replica too, before the first one has failed.

Theory. Nothing has failed yet, so these are load that nobody may have needed. They are a twentieth of the
requests at most, however many are late: each request earns a twentieth of one, and what is not spent is
saved. Saved are :data:`MOST_SAVED` at most, or what the requests of the last 10 to 20 s have earned, so that
a busy fleet has enough for what waits at a replica that has just fallen silent, and an idle one for a few
requests. Each is charged to the budget of retries as well (:mod:`~.retry_budget`), which has a floor.

Source: the "tied requests" of Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013, cost a few percent.
"""

from routing.balancing.admission.retry_budget import RetryBudget

SHARE = 0.05
MOST_SAVED = 10.0
AT_FIRST = 2.0
"""Saved when the worker starts."""


class SecondBudget:
    """Of one fleet in one worker."""

    __slots__ = ("_requests", "_retries", "_saved")

    def __init__(self, retries: RetryBudget) -> None:
        self._retries = retries
        self._saved = AT_FIRST
        self._requests = 0
        """The fleet's requests, when that was looked at last."""

    def has_left(self, requests: int) -> bool:
        """Whether one more is allowed. ``requests``: the fleet's, since the worker started."""
        retries = self._retries
        most = max(MOST_SAVED, SHARE * (retries.requests + retries.earlier_requests))
        self._saved = min(most, self._saved + SHARE * (requests - self._requests))
        self._requests = requests
        return self._saved >= 1.0 and retries.has_left

    def take(self) -> None:
        """Spend one, where there is one left."""
        self._saved -= 1.0
        self._retries.take()

    def give_back(self) -> None:
        """The last one reached no replica, and gave nobody anything to do."""
        self._saved += 1.0
        self._retries.retries = max(0, self._retries.retries - 1)
