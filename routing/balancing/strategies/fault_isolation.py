"""Fault isolation of a strategy of another package: its errors cost no request.

It gets the candidates in a tuple, which it cannot change. If its pick raises, or returns something that is no
candidate, the default strategy picks instead. It is then not asked for :data:`ISOLATE_S`, so that one that
always fails costs one try a second, and is logged once a minute at most. Its time is not limited: a pick that
blocks blocks the worker.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.expected_work_parameters import LeastExpectedWorkParameters
from routing.balancing.strategies.least_expected_work import LeastExpectedWork

ISOLATE_S = 1.0
REPORTED_FOR_S = 60.0

log = logging.getLogger(__name__)


class IsolatedStrategy:
    """Stands before one strategy, with its own name and wishes."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy: Any = strategy
        self.name = strategy.name
        self.sentence = strategy.sentence
        self.Parameters = strategy.Parameters
        self.weighs_waiting = strategy.weighs_waiting
        self.memory = strategy.memory
        self.affinity = strategy.affinity
        self._fallback = LeastExpectedWork(LeastExpectedWorkParameters())
        self._candidates: Sequence[Replica] = ()
        """The pool's own list."""
        self._handed: tuple[Replica, ...] = ()
        """The same, for the strategy: what it does to a list it would do to the pool."""
        self._allowed: frozenset[Replica] = frozenset()
        self._picked_at = 0.0
        """When it was last asked for a pick by a key."""
        self._isolated_until = 0.0
        self._failures = 0
        self._last = ""
        self._failed_at = self._logged_at = float("-inf")

    @property
    def home(self) -> Replica | None:
        """As :attr:`KeyedStrategy.home`."""
        home = getattr(self._strategy, "home", None)
        return home if isinstance(home, Replica) else None

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        if now >= self._isolated_until:
            try:
                handed = self._handed if candidates is self._candidates else self._hand(candidates)
                return self._checked(self._strategy.pick(handed, work, now, rng))
            except (Exception, SystemExit) as error:
                self._failed(error, now)
        return self._fallback.pick(candidates, work, now, rng)

    def pick_near(
        self, candidates: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        self._picked_at = now
        if now >= self._isolated_until:
            try:
                handed = self._handed if candidates is self._candidates else self._hand(candidates)
                return self._checked(self._strategy.pick_near(handed, work, now, rng, key))
            except (Exception, SystemExit) as error:
                self._failed(error, now)
        return self._fallback.pick(candidates, work, now, rng)

    def remember(self, replica: Replica, key: tuple[int, ...]) -> None:
        try:
            self._strategy.remember(replica, key)
        except (Exception, SystemExit) as error:
            self._failed(error, self._picked_at)

    def neighbours(
        self, key: tuple[int, ...], with_slot: Callable[[Iterable[Replica]], list[Replica]]
    ) -> None:
        """What it goes by is its own affair."""

    def pick_among(
        self, found: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        return self.pick_near(found, work, now, rng, key)

    def trouble(self, now: float) -> str:
        """What has gone wrong within the last minute, in words; empty: nothing."""
        if now - self._failed_at > REPORTED_FOR_S:
            return ""
        times = f"{self._failures} times" if self._failures > 1 else "once"
        instead = self._fallback.name
        return f"strategy {self.name} failed {times}, last with {self._last}; {instead} picks instead"

    def _hand(self, candidates: Sequence[Replica]) -> tuple[Replica, ...]:
        self._candidates, self._handed = candidates, tuple(candidates)
        self._allowed = frozenset(candidates)
        return self._handed

    def _checked(self, picked: object) -> Replica:
        if not isinstance(picked, Replica) or picked not in self._allowed:
            raise ValueError(f"picked {picked!r}, which is none of the candidates")
        return picked

    def _failed(self, error: Exception | SystemExit, now: float) -> None:
        self._failures += 1
        self._failed_at = now
        self._isolated_until = now + ISOLATE_S
        self._last = f"{type(error).__name__}: {error}"[:300]
        if now - self._logged_at > REPORTED_FOR_S:
            self._logged_at = now
            log.error("%s", self.trouble(now), exc_info=error)
