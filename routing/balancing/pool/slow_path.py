"""Slow path of a pick: how a request comes to a replica of its pool, or to none, the rare ways.

The usual way, at a replica that takes whatever comes, is in :meth:`routing.balancing.pool.pool.Pool.begin`
itself. Here are those where a place has to be claimed first (a limit, memory on a device), where sites
matter, where one request decides about a replica on probation, where one replica alone can serve, and where
nobody can."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from random import Random
from typing import cast

from routing.balancing.admission import fleet_warmup, memory_leases
from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.locality.site_split import SiteSplit
from routing.balancing.locality.spillover import misses_deadline
from routing.balancing.outlier import eligibility, shared_ejection
from routing.balancing.outlier.outlier_detector import OutlierDetector
from routing.balancing.pool.candidates import CandidateSearch
from routing.balancing.pool.endpoint_set import EndpointSet
from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import KeyedStrategy, Strategy
from routing.balancing.strategies.sampling import LARGE_POOL
from routing.contract.policy import Policy
from routing.contract.telemetry import FleetCounters

NEW, DEQUEUED, ANY_SLOT = range(3)
"""Whose turn it is in :meth:`routing.balancing.pool.pool.Pool.begin`: a request that has just come and lines
up behind those that wait; the one that is served from the line; one that takes any place that is free rather
than a good one later."""
RETRY_AFTER_S = 1.0


class SlowPath(CandidateSearch):
    """The half of a pool that finds places. The other half sets all that is named here."""

    name: str
    policy: Policy
    strategy: Strategy
    counters: FleetCounters
    speed: FleetSpeed
    admission: AdmissionQueue
    _endpoints: EndpointSet
    _outlier_detector: OutlierDetector
    _pick: Callable[[Sequence[Replica], float, float, Random], Replica]
    _closed: bool
    _sorted: eligibility.Eligibility
    _on_probation: list[Replica]
    _sites: SiteSplit | None
    """Where replicas are, if the proxy's own site goes before others."""
    _remote_strategy: Strategy
    """Like the strategy, for the replicas of other sites: each remembers the list that it is given."""
    _busy: Rejection
    """What a request is told that has to wait: the same each time, but for whom it waits."""

    @property
    def replicas(self) -> list[Replica]:
        """Those in the table, in its order."""
        return self._endpoints.listed

    def _listed(self) -> list[Replica]:
        return self._endpoints.listed

    def _begin_by_site(
        self,
        sites: SiteSplit,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
        until: float,
    ) -> Attempt | Rejection:
        """At one site's replicas of one or more candidates; where it would have to wait, at the others'."""
        side = sites.side(candidates, demand.work, now, self._rng, key, until)
        strategy = self.strategy if sites.is_here(side) else self._remote_strategy
        found = self._begin_among(strategy, side, demand, now, turn, key, again)
        if isinstance(found, Attempt) or len(side) == len(candidates):
            return found
        preferred = found.preferred
        gone = self._begin_across(sites, candidates, side, demand, now, key, until, preferred)
        if isinstance(gone, Attempt):
            return gone
        found.preferred = preferred
        return found

    def _begin_across(
        self,
        sites: SiteSplit,
        candidates: Sequence[Replica],
        side: Sequence[Replica],
        demand: Demand,
        now: float,
        key: tuple[int, ...],
        until: float,
        preferred: Replica | None,
    ) -> Attempt | Rejection | None:
        """A request that would have to wait at one side, for the one that is wanted there: at the other, if
        one has a place that nobody waits for, and in time if one side is. While its side is not full, the
        wait may still be worth it."""
        here = sites.is_here(side)
        beyond = sites.beyond(candidates, here)
        strategy = self._remote_strategy if here else self.strategy
        if key and strategy.affinity is not None and until == inf and not strategy.weighs_waiting:
            return self._begin_by_key(
                cast("KeyedStrategy", strategy), beyond, demand, now, ANY_SLOT, key, True
            )
        passed_up = self._declined_slot
        found, all_found = self._with_slot(beyond, demand)
        found = [one for one in found if not sibling_load.is_waited_for(one)]
        if until < inf and not misses_deadline(side, demand.work, until - now):
            found = [one for one in found if not misses_deadline((one,), demand.work, until - now)]
        if not found:
            return None
        if preferred is not None and (
            passed_up or (len(side) <= LARGE_POOL and sibling_load.with_slot(side, demand))
        ):
            found.append(preferred)
        replica = self._pick_again(found, all_found, demand.work, now)
        if replica is preferred:
            return None
        gone = self._begin_where_free(replica, found, demand, now, ANY_SLOT)
        if key and strategy.affinity is not None and isinstance(gone, Attempt):
            cast("KeyedStrategy", strategy).remember(gone.replica, key)
        return gone

    def _begin_among(
        self,
        strategy: Strategy,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
    ) -> Attempt | Rejection:
        if key and strategy.affinity is not None:
            near = cast("KeyedStrategy", strategy)
            return self._begin_by_key(near, candidates, demand, now, turn, key, again)
        only = len(candidates) == 1
        replica = candidates[0] if only else strategy.pick(candidates, demand.work, now, self._rng)
        if replica.limited:
            return self._begin_where_free(replica, candidates, demand, now, turn)
        return Attempt(self._outlier_detector, self.speed, replica, demand.work, now)

    def _begin_by_key(
        self,
        strategy: KeyedStrategy,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
    ) -> Attempt | Rejection:
        """Where its key leads one of one or more candidates, unless load forbids that. ``again``: it has been
        at another one."""
        replica = strategy.pick_near(candidates, demand.work, now, self._rng, key)
        home = strategy.home
        if replica.limited:
            found = self._begin_where_free(replica, candidates, demand, now, turn, key, strategy)
        else:
            found = Attempt(self._outlier_detector, self.speed, replica, demand.work, now)
        if isinstance(found, Attempt):
            strategy.remember(found.replica, key)
            if not again:
                self._count_affinity(found.replica, home)
        return found

    def _count_affinity(self, replica: Replica, home: Replica | None) -> None:
        if home is None:
            self.counters.affinity_new += 1
        elif replica is home:
            self.counters.affinity_kept += 1
        else:
            self.counters.affinity_spilled += 1

    def _begin_where_free(
        self,
        replica: Replica,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...] = (),
        near: KeyedStrategy | None = None,
    ) -> Attempt | Rejection:
        """At the one that was picked if it has a place, else at the best of those that have one, unless the
        strategy would rather wait. It knows nothing of memory: for want of that another is taken at once.
        ``near``: the strategy that has picked it by the request's key."""
        weighs = self.strategy.weighs_waiting
        short: list[Replica] = []
        refused: list[Replica] = []
        self._declined_slot = False
        while True:
            self._busy.preferred = replica if weighs else None
            awaited = weighs and turn == NEW and sibling_load.is_waited_for(replica)
            if not awaited and sibling_load.claim_slot_and_memory(replica, demand):
                break
            if weighs and turn != ANY_SLOT and (awaited or not memory_leases.is_short(replica)):
                # Of a small pool it has seen all.
                small = len(candidates) <= LARGE_POOL or self._reserves_memory or near is not None
                other = (
                    None
                    if small or refused
                    else self._another_than_wait(replica, candidates, demand, now, turn == NEW)
                )
                if other is None:
                    return self._busy
            else:
                if self._reserves_memory:
                    short += self._short_ones(replica, candidates, demand, not refused)
                other = self._another(near, candidates, [*refused, replica], demand, now, key)
                if other is None:
                    return self._short_of_memory(short, demand, turn) if short else self._busy
            refused.append(replica)
            replica = other
        if short and turn == NEW:
            memory_leases.count_short(short, demand)
        return self._begin_in_slot(replica, demand.work, now)

    @staticmethod
    def _short_ones(
        taken: Replica, candidates: Sequence[Replica], demand: Demand, first: bool
    ) -> Iterator[Replica]:
        """Those without the memory for a request: the one that was picked, and at first all that are."""
        if memory_leases.is_short(taken):
            yield taken
        if first:
            yield from (
                one for one in candidates if one is not taken and memory_leases.would_be_short(one, demand)
            )

    def _begin_in_slot(self, replica: Replica, work: float, now: float) -> Attempt:
        """Where a place was claimed."""
        attempt = Attempt(self._outlier_detector, self.speed, replica, work, now)
        if replica.memory is not None:
            replica.memory.hold(attempt)
        return attempt

    def _short_of_memory(
        self, short: list[Replica], demand: Demand, turn: int, only: bool = False
    ) -> Rejection:
        """No device has the memory for the request. ``only``: no other replica would do."""
        if turn == NEW:
            memory_leases.count_short(short, demand)
        message = memory_leases.why_short(self.name, short, demand)
        if memory_leases.fits_nowhere(short if only else self.replicas, demand.work):
            return Rejection("memory_never", message, None)
        rejection = Rejection("memory_short", message, RETRY_AFTER_S, self.policy.queue.timeout_s)
        # That what it waits for is particular, so that smaller requests may go by.
        rejection.preferred = short[0]
        return rejection

    def _probe(self, work: float, now: float) -> Attempt | None:
        """Send this request to a replica on probation, if no other request is deciding about it."""
        for replica in self._on_probation:
            attempt = self._probe_at(replica, work, now)
            if attempt is not None:
                return attempt
        return None

    def _probe_at(self, replica: Replica, work: float, now: float) -> Attempt | None:
        state = replica.ejection
        if state.probing or not now >= state.until > 0 or not shared_ejection.claim_probe(replica, now):
            return None
        if replica.limited and not sibling_load.claim_slot_and_memory(replica, Demand(work)):
            shared_ejection.release_probe(replica)
            return None
        state.probing = True
        attempt = self._begin_in_slot(replica, work, now)
        attempt.probe = True
        return attempt

    def _begin_at(self, only: PinnedReplica, demand: Demand, now: float, turn: int) -> Attempt | Rejection:
        """As :meth:`routing.balancing.pool.pool.Pool.begin_pinned`, with the request's work at hand."""
        replica = next((one for one in self.replicas if one.uid == only.uid), None)
        if replica is None:
            message = (
                f"{only.what} was kept by replica {only.name} of fleet {self.name}, which has been removed"
            )
            return Rejection("replica_gone", message, None)
        found = self._sorted
        if replica in found.probation and (attempt := self._probe_at(replica, demand.work, now)) is not None:
            return attempt
        if replica in found.eligible or (only.finishes and eligibility.may_finish(replica, found.panic)):
            if replica.limited and not sibling_load.claim_slot_and_memory(replica, demand):
                if memory_leases.is_short(replica):
                    return self._short_of_memory([replica], demand, turn, only=True)
                self._busy.preferred = replica
                return self._busy
            return self._begin_in_slot(replica, demand.work, now)
        why = ", and ".join(eligibility.ineligible_because(replica, now))
        message = (
            f"{only.what} is kept by replica {replica.name} of fleet {self.name}, which is not asked: {why}"
        )
        if eligibility.is_closed(replica):
            return Rejection("replica_closed", message, None)
        return Rejection("replica_unavailable", message, RETRY_AFTER_S)

    def _reject(self, retried: bool, now: float) -> Rejection:
        if self._closed:
            return Rejection("fleet_removed", f"fleet {self.name} has been removed", None)
        if retried and self._eligible:
            return Rejection(
                "no_other_replica", f"every eligible replica of fleet {self.name} was tried", None
            )
        message = eligibility.summary(self.name, self.replicas)
        if fleet_warmup.is_cold(self.replicas):
            return fleet_warmup.rejection(message, self.replicas, self.policy.queue, now)
        return Rejection("no_replica", message, RETRY_AFTER_S if self.replicas else None)
