"""Capacity of one replica of a fleet, in requests a second, from what was measured and learned. Pure.

By Little's law the requests at replicas, over those that end a second, are the seconds that one takes. On a
server with slots that stays as it is up to its slots; on a batching one it grows with what is there, by the
shape that proxies have learned (:mod:`routing.contract.learned_service`). So what a replica can take follows
from how many requests it is to have at once: a share of its ``max_concurrency``.
"""

from collections import deque
from math import log2
from typing import NamedTuple

WINDOW_S = 60
LEAST_S = 10
ENOUGH = 10
"""Requests that have ended within the window; with fewer nothing is said."""


class ServiceSecond(NamedTuple):
    """One second at a fleet's replicas."""

    busy: float
    """Requests at them, those that wait in a queue left out."""
    served_per_s: float
    """Requests that have ended there."""
    replicas: int
    """Those that took requests."""


class Capacity(NamedTuple):
    """What one replica of a fleet can take."""

    per_s: float
    """Requests a second, with ``places`` of them at once."""
    places: float
    service_s: float
    """Seconds that one takes there then."""


class _Measured(NamedTuple):
    service_s: float
    at_once: float
    """Requests at a replica meanwhile; at least 1, because one that is alone is not slowed."""


class Service:
    """The last minute at a fleet's replicas, or the last one in which enough requests have ended."""

    def __init__(self) -> None:
        self._seconds: deque[ServiceSecond] = deque(maxlen=WINDOW_S)
        self._measured: _Measured | None = None

    def add(self, second: ServiceSecond) -> None:
        self._seconds.append(second)
        served = sum(one.served_per_s for one in self._seconds)
        busy = sum(one.busy for one in self._seconds)
        replicas = sum(one.replicas for one in self._seconds)
        if len(self._seconds) >= LEAST_S and served >= ENOUGH and busy and replicas:
            self._measured = _Measured(busy / served, max(busy / replicas, 1.0))

    def capacity(self, places: float, growth: float) -> Capacity | None:
        """With so many requests at once; ``None``: not known yet. ``growth``: factor by which a request takes
        longer where twice as many are there (1: slots, 2: a batching server that is full)."""
        if self._measured is None:
            return None
        ratio = places / self._measured.at_once
        service_s = self._measured.service_s * ratio ** log2(max(growth, 1.0))
        return Capacity(places / service_s, places, service_s)
