"""Prefix columns: a fleet's part of the memory in which workers remember prompts, and its strategies'.

A column that nobody touches for ten minutes may be given to another replica
(:mod:`routing.shared.prefix_memory`), so a pool touches those of its replicas each minute.
"""

from collections.abc import Iterable

from routing.balancing.pool.terms import Terms
from routing.balancing.replica.prefix_cache_index import column_key
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import PrefixStrategy, Strategy
from routing.shared.prefix_memory import UNTOUCHED_S, PrefixMemory

TOUCH_EVERY_S = UNTOUCHED_S / 10


class PrefixColumns:
    """Of one pool."""

    __slots__ = ("_due", "_memory", "_touches")

    def __init__(self, memory: PrefixMemory | None) -> None:
        """``memory``: that of the host's workers; ``None``: the pool makes one if it needs any."""
        self._memory = memory
        self._due = 0.0
        self._touches = False
        """Whether they are touched in the present cycle."""

    def share(self, terms: Terms, replicas: int) -> None:
        """Give the memory to these strategies, if they remember prompts. ``replicas``: of the fleet."""
        for strategy in (terms.strategy, terms.remote_strategy, terms.passing_strategy):
            self.give(strategy, terms.name, replicas)

    def give(self, strategy: Strategy, fleet: str, replicas: int) -> None:
        """The same of one strategy."""
        if isinstance(strategy, PrefixStrategy):
            if self._memory is None:
                self._memory = PrefixMemory.private()
            strategy.remember_in(self._memory, fleet, replicas)

    def touch(self, part: Iterable[Replica], now: float, begins: bool) -> None:
        """In each cycle of the slow timer, of some of the replicas. ``begins``: the first of the cycle."""
        if begins:
            self._touches = self._memory is not None and now >= self._due
            if self._touches:
                self._due = now + TOUCH_EVERY_S
        if not self._touches:
            return
        assert self._memory is not None
        for replica in part:
            column = replica.prefix_column
            if column and not self._memory.touch(column_key(replica), column):
                replica.prefix_column = 0
