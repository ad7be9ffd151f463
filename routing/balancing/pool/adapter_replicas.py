"""Adapter replicas (LoRA, multi-adapter serving): which replicas of one pool serve an adapter.

A replica serves all adapters of its fleet, or those that its table entry lists. A request that names an
adapter goes only to replicas that serve it. The others of the pool are to it as if they were not there: for
retries, for its place in the queue, and in what its rejection says. Whether the fleet is in panic is still a
matter of all its replicas. Among those that serve it, some are better
(:mod:`routing.balancing.pool.adapter_homes`).

Which of them are eligible is found out when an adapter is first asked for after that has changed: a fleet may
have hundreds of adapters, of which few are in use at a time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from routing.balancing.outlier.eligibility import Eligibility
from routing.balancing.pool.adapter_homes import LOAD_BOUND, AdapterHomes
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.bounded_load import BoundedLoad

Adapters = tuple[str, ...]
"""Names of adapters of one fleet, those that a request names, each once."""
MakeStrategy = Callable[[], Strategy]
"""Makes another copy of the pool's strategy: each caches what it derives from its list of replicas."""


class ReplicaSubset:
    """Replicas that serve the same adapters; not all of the pool."""

    __slots__ = ("_eligible", "_make_strategy", "_sorted_of", "_strategy", "bound", "listed", "members")

    def __init__(self, listed: Sequence[Replica], make_strategy: MakeStrategy) -> None:
        self.listed = listed
        """In the order of the table."""
        self.members = frozenset(listed)
        self.bound = BoundedLoad(LOAD_BOUND, by_speed=True)
        self._make_strategy = make_strategy
        self._strategy: Strategy | None = None
        self._sorted_of: Eligibility | None = None
        self._eligible: list[Replica] = []

    @property
    def strategy(self) -> Strategy:
        """The fleet's, for the lists of this subset."""
        if self._strategy is None:
            self._strategy = self._make_strategy()
        return self._strategy

    def eligible(self, found: Eligibility) -> list[Replica]:
        """Those of them that are asked. An ejected one is better than none: the limit on ejections is a share
        of all replicas of the fleet. The same list for as long as ``found`` is the same."""
        if found is not self._sorted_of:
            members = self.members
            self._eligible = [replica for replica in found.eligible if replica in members]
            if not self._eligible:
                out = (*found.resting, *found.ejected)
                self._eligible = [replica for replica in out if replica in members]
            self._sorted_of = found
        return self._eligible


class AdapterPlacement(NamedTuple):
    """Where a request may go, and where it had better go, because of the adapters that it names."""

    limited: Adapters
    """Those of the adapters that not every replica serves."""
    replicas: ReplicaSubset | None
    """Those that serve them; ``None``: all of the pool."""
    homes: AdapterHomes | None
    """``None``: none is better than another."""
    bound: BoundedLoad
    """For the homes."""


class AdapterReplicas:
    """The replicas of one pool by adapter."""

    __slots__ = ("_bound", "_by_adapter", "_homes", "_listed", "_make_strategy", "matter")

    def __init__(self, make_strategy: MakeStrategy) -> None:
        self._make_strategy = make_strategy
        self._listed: Sequence[Replica] = ()
        self._by_adapter: dict[str, ReplicaSubset] = {}
        self._homes: dict[str, AdapterHomes] = {}
        self._bound = BoundedLoad(LOAD_BOUND, by_speed=True)
        """Of the whole pool."""
        self.matter = False
        """Whether it matters for where a request goes that it names an adapter."""

    def follow(self, adapters: Iterable[str], listed: Sequence[Replica]) -> None:
        """The pool has these replicas from now on, and its fleet these adapters."""
        self._listed = listed
        self._by_adapter, self._homes = {}, {}
        every = frozenset(adapters)
        self.matter = bool(every) and len(listed) > 1
        limited = [replica for replica in listed if replica.spec.adapters is not None]
        if not limited:
            return
        self.matter = bool(every)
        without: dict[str, set[Replica]] = {}
        for replica in limited:
            for adapter in every.difference(replica.spec.adapters or ()):
                without.setdefault(adapter, set()).add(replica)
        subsets: dict[frozenset[Replica], ReplicaSubset] = {}
        for adapter, missing in without.items():
            key = frozenset(missing)
            subset = subsets.get(key)
            if subset is None:
                serving = [replica for replica in listed if replica not in missing]
                subset = subsets[key] = ReplicaSubset(serving, self._make_strategy)
            self._by_adapter[adapter] = subset

    @property
    def are_limited(self) -> bool:
        """Whether there is an adapter that not every replica serves."""
        return bool(self._by_adapter)

    def limited(self, named: Iterable[str]) -> Adapters:
        """Those of the named ones that not every replica serves, each once, in one order."""
        return tuple(sorted({name for name in named if name in self._by_adapter}))

    def place(self, adapters: Adapters) -> AdapterPlacement:
        """Where a request goes that names these."""
        limited = self.limited(adapters) if self._by_adapter else ()
        subset = self.serving(limited) if limited else None
        if len(adapters) != 1:
            return AdapterPlacement(limited, subset, None, self._bound)
        (adapter,) = adapters
        homes = self._homes.get(adapter)
        if homes is None:
            replicas = self._listed if subset is None else subset.listed
            homes = self._homes[adapter] = AdapterHomes(adapter, replicas)
        return AdapterPlacement(limited, subset, homes, self._bound if subset is None else subset.bound)

    def serving(self, adapters: Adapters) -> ReplicaSubset | None:
        """The replicas that serve all of these; ``None``: every replica does."""
        by_adapter = self._by_adapter
        if len(adapters) == 1:
            return by_adapter.get(adapters[0])
        subsets = [by_adapter[adapter] for adapter in adapters if adapter in by_adapter]
        if len({id(subset) for subset in subsets}) <= 1:
            return subsets[0] if subsets else None
        # Not kept: clients choose the combinations.
        both = frozenset.intersection(*(subset.members for subset in subsets))
        return ReplicaSubset([one for one in self._listed if one in both], self._make_strategy)


def in_words(adapters: Adapters) -> str:
    """``adapter sql-lora``, for messages."""
    shown = ", ".join(adapter[:100] for adapter in adapters[:5])
    return f"{'adapter' if len(adapters) == 1 else 'adapters'} {shown}"
