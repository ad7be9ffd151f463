"""Slow path of a pick: the rare ways in which a request gets a replica of its pool, or is rejected.

The usual way is in :meth:`routing.balancing.pool.pool.Pool.begin` itself. The others are here: the picked
replica has no slot, device memory is reserved, sites matter, the request has a key, one probe request decides
about a replica on probation, only one replica can serve the request (it is pinned), or none is eligible.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from math import inf
from random import Random
from typing import Final, cast

from routing.balancing.admission import fleet_warmup, memory_leases
from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.learning.odds import Odds
from routing.balancing.locality.site_split import SiteSplit
from routing.balancing.locality.spillover import misses_deadline
from routing.balancing.outlier import eligibility, shared_ejection, silence
from routing.balancing.outlier.eligibility import Eligibility
from routing.balancing.outlier.fair_shares import FairShares
from routing.balancing.outlier.outlier_detector import OutlierDetector
from routing.balancing.pool import due_pick
from routing.balancing.pool.adapter_replicas import AdapterPlacement, in_words
from routing.balancing.pool.candidates import CandidateSearch
from routing.balancing.pool.endpoint_set import EndpointSet
from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.terms import Terms
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import KeyedStrategy, Strategy
from routing.balancing.strategies.sampling import LARGE_POOL
from routing.contract.telemetry import FleetCounters

NEW: Final = 0
DEQUEUED: Final = 1
ANY_SLOT: Final = 2
"""``turn`` of :meth:`routing.balancing.pool.pool.Pool.begin`: a new request, which does not overtake queued
ones; the request that the queue serves now; one that takes any free slot instead of waiting for a better
one."""
RETRY_AFTER_S: Final = 1.0
PickReplica = Callable[[Sequence[Replica], float, float, Random], Replica]
"""The strategy's :meth:`routing.balancing.strategies.base.Strategy.pick`."""


class SlowPath:
    """The slow path of one pool. The pool sets the public fields whenever they change."""

    def __init__(
        self,
        terms: Terms,
        endpoints: EndpointSet,
        search: CandidateSearch,
        detector: OutlierDetector,
        speed: FleetSpeed,
        counters: FleetCounters,
        rng: Random,
    ) -> None:
        self.follow(terms)
        self.eligibility = Eligibility()
        self.sites: SiteSplit | None = None
        """The replicas by site, if the proxy's own site is preferred now."""
        self.fair_shares = FairShares()
        """Of replicas whose speed is doubted."""
        self.closed = False
        """Whether the fleet was removed."""
        self._moved_share = due_pick.MovedShare()
        self._endpoints = endpoints
        self._search = search
        self._outlier_detector = detector
        self._speed = speed
        self._counters = counters
        self._rng = rng

    def follow(self, terms: Terms) -> None:
        """Pick by these terms from now on."""
        self.terms = terms
        self._busy: dict[Replica | None, Rejection] = {}
        """Ready-made rejections, by the replica that the request would best wait for."""

    def begin(
        self,
        pick: PickReplica,
        work: float,
        now: float,
        excluded: tuple[Replica, ...],
        turn: int,
        since: float,
        key: tuple[int, ...],
        until: float,
        odds: Odds | None,
        place: AdapterPlacement | None = None,
    ) -> Attempt | Rejection:
        """Begin as a probe request, within one site, by key, at a home of its adapter or as usual: the first
        of these that applies. ``odds``: of being in time, if the request is due. ``place``: set if it names
        adapters."""
        strategy, again = self.terms.strategy, bool(excluded)
        affinity = strategy.affinity
        in_session = bool(key) and affinity is not None and not affinity.block_bytes
        candidates: Sequence[Replica] = self.eligibility.eligible
        members: Container[Replica] | None = None
        subset = None if place is None else place.replicas
        if subset is not None:
            candidates, members = subset.eligible(self.eligibility), subset.members
            strategy = subset.strategy
            pick = strategy.pick
        every = candidates
        holds = self.fair_shares.hold and not in_session
        if holds:
            candidates = self.fair_shares.candidates(candidates, members) or every
        if again:
            left = [replica for replica in candidates if replica not in excluded]
            if holds and not left:
                left = [replica for replica in every if replica not in excluded]
            candidates = left
        elif self.eligibility.probation or self.eligibility.starved:
            attempt = self.probe(work, now, in_session, members)
            if attempt is not None:
                return attempt
        if not candidates:
            return self.reject(again, now, place)
        demand, sites = Demand(work, since), self.sites
        if sites is not None:
            found = self.begin_by_site(sites, candidates, demand, now, turn, key, again, until, odds, place)
        else:
            found = self._begin_among(strategy, pick, candidates, demand, now, turn, key, again, odds, place)
        if holds and not isinstance(found, Attempt):
            found = self._begin_beyond_shares(found, every, demand, excluded, now)
        if isinstance(found, Attempt):
            if holds:
                self.fair_shares.count(found.replica)
            if self._outlier_detector.monitoring and not again:
                found.monitor()
        return found

    def _begin_beyond_shares(
        self,
        rejection: Rejection,
        candidates: Sequence[Replica],
        demand: Demand,
        excluded: tuple[Replica, ...],
        now: float,
    ) -> Attempt | Rejection:
        """The others have no slot. They may be silent, so what is held to its share gets some all the
        same."""
        for replica in self.fair_shares.beyond(now):
            if replica in candidates and replica not in excluded:
                found = self.begin_at(replica, [replica], demand, now, ANY_SLOT)
                if isinstance(found, Attempt):
                    return found
        return rejection

    def begin_by_site(
        self,
        sites: SiteSplit,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
        until: float,
        odds: Odds | None = None,
        place: AdapterPlacement | None = None,
    ) -> Attempt | Rejection:
        """Begin at one site's replicas among the candidates; if it would have to wait there, at the other
        sites' replicas. There is at least one candidate."""
        site_candidates = sites.side(candidates, demand.work, now, self._rng, key, until)
        strategy = self.terms.strategy if sites.is_here(site_candidates) else self.terms.remote_strategy
        found = self._begin_among(
            strategy, strategy.pick, site_candidates, demand, now, turn, key, again, odds, place
        )
        if isinstance(found, Attempt) or len(site_candidates) == len(candidates):
            return found
        spilled = self._begin_across(sites, candidates, site_candidates, demand, now, key, until, found)
        return spilled if isinstance(spilled, Attempt) else found

    def _begin_across(
        self,
        sites: SiteSplit,
        candidates: Sequence[Replica],
        site_candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        key: tuple[int, ...],
        until: float,
        queued_rejection: Rejection,
    ) -> Attempt | Rejection | None:
        """Begin at the other side (own site, or the other sites) for a request that would have to wait at its
        own: ``queued_rejection`` says so. It needs a slot there that no queued request waits for and, if its
        own side meets the deadline, one that does too. ``None``: there is none, or waiting is better."""
        here = sites.is_here(site_candidates)
        other_candidates = sites.beyond(candidates, here)
        strategy = self.terms.remote_strategy if here else self.terms.strategy
        if key and strategy.affinity is not None and until == inf and not strategy.weighs_waiting:
            return self.begin_by_key(
                cast("KeyedStrategy", strategy), other_candidates, demand, now, ANY_SLOT, key, True
            )
        preferred = queued_rejection.preferred
        found, all_found = self._search.with_slot(other_candidates, demand)
        found = [one for one in found if not sibling_load.is_waited_for(one)]
        if until < inf and not misses_deadline(site_candidates, demand.work, until - now):
            found = [one for one in found if not misses_deadline((one,), demand.work, until - now)]
        if not found:
            return None
        if preferred is not None and (
            queued_rejection.declined_slot
            or (len(site_candidates) <= LARGE_POOL and sibling_load.with_slot(site_candidates, demand))
        ):
            found.append(preferred)
        replica = self._search.pick_again(found, all_found, demand.work, now)
        if replica is preferred:
            return None
        spilled = self.begin_at(replica, found, demand, now, ANY_SLOT)
        if key and strategy.affinity is not None and isinstance(spilled, Attempt):
            cast("KeyedStrategy", strategy).remember(spilled.replica, key)
        return spilled

    def _begin_among(
        self,
        strategy: Strategy,
        pick: PickReplica,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
        odds: Odds | None,
        place: AdapterPlacement | None = None,
    ) -> Attempt | Rejection:
        if key and strategy.affinity is not None:
            near = cast("KeyedStrategy", strategy)
            return self.begin_by_key(near, candidates, demand, now, turn, key, again, odds)
        only = len(candidates) == 1
        replica = candidates[0] if only else self._home(place, candidates, demand, now)
        replica = replica or pick(candidates, demand.work, now, self._rng)
        if odds is not None:
            replica = self._in_time(replica, candidates, odds, demand.work, now, turn)
        return self.begin_at(replica, candidates, demand, now, turn)

    def _in_time(
        self,
        own: Replica,
        candidates: Sequence[Replica],
        odds: Odds,
        work: float,
        now: float,
        turn: int,
    ) -> Replica:
        """The strategy's ``own`` choice, unless the request is likelier in time at another."""
        only_free = turn == ANY_SLOT or not self.terms.strategy.weighs_waiting
        moved = self._moved_share
        found = due_pick.worth_it(own, candidates, odds, self._rng, only_free, moved.least_worth)
        moved.count(bool(found))
        if found:
            self._counters.picked_in_time += 1
            own = self._search.pick_again(found, True, work, now)
        due_pick.note(own, odds)
        return own

    def _home(
        self, place: AdapterPlacement | None, candidates: Sequence[Replica], demand: Demand, now: float
    ) -> Replica | None:
        """A home of the request's adapter that has room; ``None``: it has none, or names no adapter."""
        if place is None or place.homes is None:
            return None
        found = place.homes.with_room(candidates, demand, place.bound)
        return self._search.pick_again(found, True, demand.work, now) if found else None

    def begin_by_key(
        self,
        strategy: KeyedStrategy,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
        odds: Odds | None = None,
    ) -> Attempt | Rejection:
        """Begin at the candidate of the request's key, unless its load forbids that. There is at least one
        candidate. ``again``: a retry, which does not count for affinity."""
        replica = strategy.pick_near(candidates, demand.work, now, self._rng, key)
        home = strategy.home
        if odds is not None and replica is not home:
            replica = self._in_time(replica, candidates, odds, demand.work, now, turn)
        found = self.begin_at(replica, candidates, demand, now, turn, key, strategy)
        if isinstance(found, Attempt):
            strategy.remember(found.replica, key)
            if not again:
                self._count_affinity(found.replica, home)
        return found

    def _count_affinity(self, replica: Replica, home: Replica | None) -> None:
        if home is None:
            self._counters.affinity_new += 1
        elif replica is home:
            self._counters.affinity_kept += 1
        else:
            self._counters.affinity_spilled += 1

    def begin_at(
        self,
        replica: Replica,
        candidates: Sequence[Replica],
        demand: Demand,
        now: float,
        turn: int,
        key: tuple[int, ...] = (),
        near: KeyedStrategy | None = None,
    ) -> Attempt | Rejection:
        """Begin at the picked replica if it has a slot, else at the best of those that have one, unless the
        strategy prefers to wait. Strategies know nothing of device memory: if that is short, another replica
        is taken at once. ``near``: the strategy that picked the replica by the request's key."""
        if not replica.limited:
            return Attempt(self._outlier_detector, self._speed, replica, demand.work, now)
        search, weighs_waiting = self._search, self.terms.strategy.weighs_waiting
        memory_short: list[Replica] = []
        refused: list[Replica] = []
        declined_slot = False
        while True:
            awaited = weighs_waiting and turn == NEW and sibling_load.is_waited_for(replica)
            if not awaited and sibling_load.claim_slot_and_memory(replica, demand):
                break
            if weighs_waiting and turn != ANY_SLOT and (awaited or not memory_leases.is_short(replica)):
                other = None
                # In a small pool the strategy has compared all replicas already.
                if len(candidates) > LARGE_POOL and not (search.reserves_memory or near or refused):
                    is_new = turn == NEW
                    other, declined_slot = search.alternative_to_waiting(
                        replica, candidates, demand, now, is_new
                    )
                if other is None:
                    return self.busy(replica, declined_slot)
            else:
                if search.reserves_memory:
                    memory_short += self._short_ones(replica, candidates, demand, not refused)
                other = search.alternative(near, candidates, [*refused, replica], demand, now, key)
                if other is None:
                    if memory_short:
                        return self._short_of_memory(memory_short, demand, turn, declined_slot=declined_slot)
                    return self.busy(replica if weighs_waiting else None, declined_slot)
            refused.append(replica)
            replica = other
        if memory_short and turn == NEW:
            memory_leases.count_short(memory_short, demand)
        return self._begin_in_slot(replica, demand.work, now)

    @staticmethod
    def _short_ones(
        taken: Replica, candidates: Sequence[Replica], demand: Demand, first: bool
    ) -> Iterator[Replica]:
        """Replicas without the memory for a request: ``taken`` and, the first time, all others."""
        if memory_leases.is_short(taken):
            yield taken
        if first:
            yield from (
                one for one in candidates if one is not taken and memory_leases.would_be_short(one, demand)
            )

    def _begin_in_slot(self, replica: Replica, work: float, now: float) -> Attempt:
        """Begin at a replica where a slot is claimed already."""
        attempt = Attempt(self._outlier_detector, self._speed, replica, work, now)
        if replica.memory is not None:
            replica.memory.hold(attempt)
        return attempt

    def _short_of_memory(
        self,
        short: list[Replica],
        demand: Demand,
        turn: int,
        only: bool = False,
        declined_slot: bool = False,
    ) -> Rejection:
        """Reject: no device has the memory for the request. ``only``: no other replica can serve it."""
        if turn == NEW:
            memory_leases.count_short(short, demand)
        message = memory_leases.why_short(self.terms.name, short, demand)
        if memory_leases.fits_nowhere(short if only else self._endpoints.listed, demand.work):
            return Rejection("memory_never", message, None)
        # With a preferred replica the queued request lets smaller ones overtake it.
        preferred, timeout_s = short[0], self.terms.policy.queue.timeout_s
        return Rejection("memory_short", message, RETRY_AFTER_S, timeout_s, preferred, declined_slot)

    def busy(self, preferred: Replica | None = None, declined_slot: bool = False) -> Rejection:
        """Reject: the request has to wait for a slot. In an overload most picks end here, so the usual
        rejection is made once for each table and replica."""
        if declined_slot:
            return self._new_busy(preferred, declined_slot)
        found = self._busy.get(preferred)
        if found is None:
            found = self._busy[preferred] = self._new_busy(preferred, declined_slot)
        return found

    def _new_busy(self, preferred: Replica | None, declined_slot: bool) -> Rejection:
        timeout_s = self.terms.policy.queue.timeout_s
        return Rejection("busy", "no replica has a free slot", None, timeout_s, preferred, declined_slot)

    def probe(
        self, work: float, now: float, in_session: bool, members: Container[Replica] | None = None
    ) -> Attempt | None:
        """Send this request to a replica on probation, if no other request is deciding about it; or to one
        that no strategy asks. ``in_session``: not to such a one, for the request belongs to a session, which
        is kept somewhere; the replica's own sessions try it out. ``members``: to none but these."""
        for replica in self.eligibility.probation:
            if members is not None and replica not in members:
                continue
            attempt = self._probe_at(replica, work, now)
            if attempt is not None:
                return attempt
        for replica in () if in_session else self.eligibility.starved:
            progress, demand = replica.ejection.progress, Demand(work)
            if members is not None and replica not in members:
                continue
            if progress.is_due and self._may_try(replica, demand, now):
                progress.is_due = False
                return self._begin_in_slot(replica, work, now)
        return None

    def _probe_at(self, replica: Replica, work: float, now: float) -> Attempt | None:
        state = replica.ejection
        if state.probing or not now >= state.until > 0 or not shared_ejection.claim_probe(replica, now):
            return None
        if not self._may_try(replica, Demand(work), now):
            shared_ejection.release_probe(replica)
            return None
        state.probing, state.probed_at = True, now
        attempt = self._begin_in_slot(replica, work, now)
        attempt.probe = True
        return attempt

    def _may_try(self, replica: Replica, demand: Demand, now: float) -> bool:
        """Claim a slot to try it out. Silent requests take none: where they have all of them, one more is
        sent."""
        if not replica.limited or sibling_load.claim_slot_and_memory(replica, demand):
            return True
        stall_s = self.terms.policy.timeouts.stall_s
        return replica.memory is None and silence.holds_slots(replica, now, stall_s, self._speed.p99_s)

    def begin_pinned(self, only: PinnedReplica, demand: Demand, now: float, turn: int) -> Attempt | Rejection:
        """As :meth:`routing.balancing.pool.pool.Pool.begin_pinned`, with the estimated work known."""
        fleet = self.terms.name
        replica = next((one for one in self._endpoints.listed if one.uid == only.uid), None)
        if replica is None:
            words = f"was stored by replica {only.name} of fleet {fleet}, which has been removed"
            message = f"{only.stored_item} {words}"
            return Rejection("replica_gone", message, None)
        found = self.eligibility
        if replica in found.probation and (attempt := self._probe_at(replica, demand.work, now)) is not None:
            return attempt
        if replica in found.eligible or (only.only_finishes and eligibility.may_finish(replica, found.panic)):
            if replica.limited and not sibling_load.claim_slot_and_memory(replica, demand):
                if memory_leases.is_short(replica):
                    return self._short_of_memory([replica], demand, turn, only=True)
                return self.busy(replica)
            return self._begin_in_slot(replica, demand.work, now)
        why = ", and ".join(eligibility.ineligible_because(replica, now))
        words = f"is stored by replica {replica.name} of fleet {fleet}, which gets no requests: {why}"
        message = f"{only.stored_item} {words}"
        if eligibility.is_closed(replica):
            return Rejection("replica_closed", message, None)
        return Rejection("replica_unavailable", message, RETRY_AFTER_S)

    def reject(self, retried: bool, now: float, place: AdapterPlacement | None = None) -> Rejection:
        """``place``: set if the request names adapters."""
        fleet = self.terms.name
        if self.closed:
            return Rejection("fleet_removed", f"fleet {fleet} has been removed", None)
        listed: Sequence[Replica] = self._endpoints.listed
        subset = None if place is None else place.replicas
        if place is None or subset is None:
            tried = bool(self.eligibility.eligible)
            that_serves, message = "", eligibility.summary(fleet, listed)
        else:
            tried, listed = bool(subset.eligible(self.eligibility)), subset.listed
            that_serves = f" that serves {in_words(place.limited)}"
            if listed:
                message = f"no replica{that_serves} is eligible; {eligibility.summary(fleet, listed)}"
            else:
                message = f"no replica of fleet {fleet} serves {in_words(place.limited)}"
        if retried and tried:
            words = f"every eligible replica of fleet {fleet}{that_serves} was tried"
            return Rejection("no_other_replica", words, None)
        # A fleet that has none at all may be about to get its first: then holding is what its policy says.
        is_empty = subset is None and not listed and self.terms.policy.queue.cold == "hold"
        if is_empty or fleet_warmup.is_cold(listed):
            return fleet_warmup.rejection(message, listed, self.terms.policy.queue, now)
        return Rejection("no_replica", message, RETRY_AFTER_S if listed else None)
