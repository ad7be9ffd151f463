"""Service rate: how fast a fleet ends requests, and so what Retry-After says to requests that are rejected.

The rate is an exponentially decaying average over :data:`TAU_S` of the requests that all workers of the host
have ended. It is updated on the slow timer while a request waits. Otherwise what ends is what comes, which
says nothing of what could be served. The rate is forgotten when nobody has waited for so long.
"""

from math import exp

TAU_S = 5.0
LEAST_S, MOST_S = 1.0, 60.0
_ENOUGH = 10
"""Requests that must have ended before the rate is believed."""


class ServiceRate:
    """Requests a second that end (the service rate)."""

    __slots__ = ("_at", "_ended", "_idle_s", "_sum", "_weight", "per_s", "seen")

    def __init__(self) -> None:
        self._at = 0.0
        self._ended = 0.0
        self.per_s = self._sum = self._weight = 0.0
        self._idle_s = 0.0
        self.seen = 0.0
        """Requests that the rate comes from."""

    def observe(self, ended: float, now: float) -> None:
        """``ended``: how many requests have ended in all. Fewer than before: a worker has gone, and its count
        with it."""
        passed = now - self._at
        self._idle_s = 0.0
        if not self._at or ended < self._ended or passed <= 0:
            self._at, self._ended = now, ended
            return
        keep = exp(-passed / TAU_S)
        self._sum = self._sum * keep + (ended - self._ended) / passed * (1 - keep)
        self._weight = self._weight * keep + 1 - keep
        self.per_s = self._sum / self._weight
        self.seen += ended - self._ended
        self._at, self._ended = now, ended

    def observe_idle(self, ended: float, now: float) -> None:
        """As :meth:`observe`, while no request waits: then the rate is what comes, not what could be
        served."""
        self._idle_s += now - self._at if self._at else 0.0
        self._at, self._ended = now, ended
        if self._idle_s > TAU_S:
            self.per_s = self._sum = self._weight = self.seen = 0.0

    @property
    def known(self) -> bool:
        return self.seen >= _ENOUGH and self.per_s > 0

    def wait_for(self, requests: float) -> float:
        """Seconds until so many requests have ended. Only while the rate is :attr:`known`."""
        return requests / self.per_s if self.per_s else MOST_S

    def retry_after(self, requests: float, otherwise: float) -> float:
        """The same as advice for a client: 1 to 60 s. ``otherwise``: while the rate is not known."""
        seconds = self.wait_for(requests) if self.known else otherwise
        return min(MOST_S, max(LEAST_S, seconds))
