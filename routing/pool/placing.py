"""How a request comes to a replica of its pool, or to none: the rare ways.

The usual way, at a replica that takes whatever comes, is in :meth:`routing.pool.pool.Pool.begin` itself. Here
are those where a place has to be claimed first (a limit, memory on a device), where sites matter, where one
request decides about a replica on probation, where one replica alone can serve, and where nobody can.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from random import Random
from typing import cast

from routing.attempts.attempt import Attempt
from routing.contract.policy import Policy
from routing.contract.telemetry import FleetCounters
from routing.policies import cold_start, eligibility, host_view, memory_leases
from routing.policies.fleet_speed import FleetSpeed
from routing.policies.locality import too_late
from routing.policies.refusal import Refusal
from routing.pool.admission import Admission
from routing.pool.finding import Finding
from routing.pool.members import Members
from routing.pool.one_replica import OneReplica
from routing.pool.sites import Sites
from routing.pool.verdicts import Verdicts
from routing.replica import Replica
from routing.replica_state.device_memory import Ask
from routing.strategies.base import KeyedStrategy, Strategy
from routing.strategies.sampling import LARGE_POOL

NEW, CALLED, ANY = range(3)
"""Whose turn it is in :meth:`routing.pool.pool.Pool.begin`: a request that has just come and lines up behind
those that wait; the one that is served from the line; one that takes any place that is free rather than a
good one later."""
RETRY_AFTER_S = 1.0


class Placing(Finding):
    """The half of a pool that finds places. The other half sets all that is named here."""

    name: str
    policy: Policy
    strategy: Strategy
    counters: FleetCounters
    speed: FleetSpeed
    admission: Admission
    _members: Members
    _verdicts: Verdicts
    _pick: Callable[[Sequence[Replica], float, float, Random], Replica]
    _closed: bool
    _sorted: eligibility.Eligibility
    _probation: list[Replica]
    _sites: Sites | None
    """Where replicas are, if the proxy's own site goes before others."""
    _elsewhere: Strategy
    """Like the strategy, for the replicas of other sites: each remembers the list that it is given."""
    _busy: Refusal
    """What a request is told that has to wait: the same each time, but for whom it waits."""

    @property
    def replicas(self) -> list[Replica]:
        """Those in the table, in its order."""
        return self._members.listed

    def _begin_by_site(
        self,
        sites: Sites,
        candidates: Sequence[Replica],
        ask: Ask,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
        until: float,
    ) -> Attempt | Refusal:
        """At one site's replicas of one or more candidates; where it would have to wait, at the others'."""
        side = sites.side(candidates, ask.work, now, self._rng, key, until)
        strategy = self.strategy if sites.is_here(side) else self._elsewhere
        found = self._begin_among(strategy, side, ask, now, turn, key, again)
        if isinstance(found, Attempt) or len(side) == len(candidates):
            return found
        wanted = found.wanted
        gone = self._begin_across(sites, candidates, side, ask, now, key, until, wanted)
        if isinstance(gone, Attempt):
            return gone
        found.wanted = wanted
        return found

    def _begin_across(
        self,
        sites: Sites,
        candidates: Sequence[Replica],
        side: Sequence[Replica],
        ask: Ask,
        now: float,
        key: tuple[int, ...],
        until: float,
        wanted: Replica | None,
    ) -> Attempt | Refusal | None:
        """A request that would have to wait at one side, for the one that is wanted there: at the other, if
        one has a place that nobody waits for, and in time if one side is. While its side is not full, the
        wait may still be worth it."""
        here = sites.is_here(side)
        beyond = sites.beyond(candidates, here)
        strategy = self._elsewhere if here else self.strategy
        if key and strategy.affinity is not None and until == inf and not strategy.weighs_waiting:
            return self._begin_near(cast("KeyedStrategy", strategy), beyond, ask, now, ANY, key, True)
        passed_up = self._passed_up
        found, all_found = self._with_place(beyond, ask)
        found = [one for one in found if not host_view.is_awaited(one)]
        if until < inf and not too_late(side, ask.work, until - now):
            found = [one for one in found if not too_late((one,), ask.work, until - now)]
        if not found:
            return None
        if wanted is not None and (
            passed_up or (len(side) <= LARGE_POOL and host_view.with_place(side, ask))
        ):
            found.append(wanted)
        replica = self._pick_again(found, all_found, ask.work, now)
        if replica is wanted:
            return None
        gone = self._begin_where_free(replica, found, ask, now, ANY)
        if key and strategy.affinity is not None and isinstance(gone, Attempt):
            cast("KeyedStrategy", strategy).remember(gone.replica, key)
        return gone

    def _begin_among(
        self,
        strategy: Strategy,
        candidates: Sequence[Replica],
        ask: Ask,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
    ) -> Attempt | Refusal:
        if key and strategy.affinity is not None:
            near = cast("KeyedStrategy", strategy)
            return self._begin_near(near, candidates, ask, now, turn, key, again)
        only = len(candidates) == 1
        replica = candidates[0] if only else strategy.pick(candidates, ask.work, now, self._rng)
        if replica.limited:
            return self._begin_where_free(replica, candidates, ask, now, turn)
        return Attempt(self._verdicts, self.speed, replica, ask.work, now)

    def _begin_near(
        self,
        strategy: KeyedStrategy,
        candidates: Sequence[Replica],
        ask: Ask,
        now: float,
        turn: int,
        key: tuple[int, ...],
        again: bool,
    ) -> Attempt | Refusal:
        """Where its key leads one of one or more candidates, unless load forbids that. ``again``: it has been
        at another one."""
        replica = strategy.pick_near(candidates, ask.work, now, self._rng, key)
        home = strategy.home
        if replica.limited:
            found = self._begin_where_free(replica, candidates, ask, now, turn, key, strategy)
        else:
            found = Attempt(self._verdicts, self.speed, replica, ask.work, now)
        if isinstance(found, Attempt):
            strategy.remember(found.replica, key)
            if not again:
                self._count_near(found.replica, home)
        return found

    def _count_near(self, replica: Replica, home: Replica | None) -> None:
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
        ask: Ask,
        now: float,
        turn: int,
        key: tuple[int, ...] = (),
        near: KeyedStrategy | None = None,
    ) -> Attempt | Refusal:
        """At the one that was picked if it has a place, else at the best of those that have one, unless the
        strategy would rather wait. It knows nothing of memory: for want of that another is taken at once.
        ``near``: the strategy that has picked it by the request's key."""
        weighs = self.strategy.weighs_waiting
        short: list[Replica] = []
        refused: list[Replica] = []
        self._passed_up = False
        while True:
            self._busy.wanted = replica if weighs else None
            awaited = weighs and turn == NEW and host_view.is_awaited(replica)
            if not awaited and host_view.claim_place(replica, ask):
                break
            if weighs and turn != ANY and (awaited or not memory_leases.is_short(replica)):
                # Of a small pool it has seen all.
                small = len(candidates) <= LARGE_POOL or self._leases or near is not None
                other = None if small or refused else self._rather(replica, candidates, ask, now, turn == NEW)
                if other is None:
                    return self._busy
            else:
                if self._leases:
                    short += self._short_ones(replica, candidates, ask, not refused)
                other = self._another(near, candidates, [*refused, replica], ask, now, key)
                if other is None:
                    return self._short_of_memory(short, ask, turn) if short else self._busy
            refused.append(replica)
            replica = other
        if short and turn == NEW:
            memory_leases.count_short(short, ask)
        return self._placed(replica, ask.work, now)

    @staticmethod
    def _short_ones(
        taken: Replica, candidates: Sequence[Replica], ask: Ask, first: bool
    ) -> Iterator[Replica]:
        """Those without the memory for a request: the one that was picked, and at first all that are."""
        if memory_leases.is_short(taken):
            yield taken
        if first:
            yield from (
                one for one in candidates if one is not taken and memory_leases.would_be_short(one, ask)
            )

    def _placed(self, replica: Replica, work: float, now: float) -> Attempt:
        """Where a place was claimed."""
        attempt = Attempt(self._verdicts, self.speed, replica, work, now)
        if replica.memory is not None:
            replica.memory.hold(attempt)
        return attempt

    def _short_of_memory(self, short: list[Replica], ask: Ask, turn: int, only: bool = False) -> Refusal:
        """No device has the memory for the request. ``only``: no other replica would do."""
        if turn == NEW:
            memory_leases.count_short(short, ask)
        message = memory_leases.why_short(self.name, short, ask)
        if memory_leases.fits_nowhere(short if only else self.replicas, ask.work):
            return Refusal("memory_never", message, None)
        refusal = Refusal("memory_short", message, RETRY_AFTER_S, self.policy.queue.timeout_s)
        # That what it waits for is particular, so that smaller requests may go by.
        refusal.wanted = short[0]
        return refusal

    def _probe(self, work: float, now: float) -> Attempt | None:
        """Send this request to a replica on probation, if no other request is deciding about it."""
        for replica in self._probation:
            attempt = self._probe_at(replica, work, now)
            if attempt is not None:
                return attempt
        return None

    def _probe_at(self, replica: Replica, work: float, now: float) -> Attempt | None:
        state = replica.ejection
        if state.probing or not now >= state.until > 0 or not host_view.claim_probe(replica, now):
            return None
        if replica.limited and not host_view.claim_place(replica, Ask(work)):
            host_view.release_probe(replica)
            return None
        state.probing = True
        attempt = self._placed(replica, work, now)
        attempt.probe = True
        return attempt

    def _begin_at(self, only: OneReplica, ask: Ask, now: float, turn: int) -> Attempt | Refusal:
        """At this replica or at none. Refused with ``replica_gone``: it is not in the table any more;
        ``replica_closed``: it takes nothing new until an operator or its health says otherwise;
        ``replica_unavailable``: not at this moment."""
        replica = next((one for one in self.replicas if one.uid == only.uid), None)
        if replica is None:
            message = (
                f"{only.what} was kept by replica {only.name} of fleet {self.name}, which has been removed"
            )
            return Refusal("replica_gone", message, None)
        found = self._sorted
        if replica in found.probation and (attempt := self._probe_at(replica, ask.work, now)) is not None:
            return attempt
        if replica in found.eligible or (only.finishes and eligibility.may_finish(replica, found.panic)):
            if replica.limited and not host_view.claim_place(replica, ask):
                if memory_leases.is_short(replica):
                    return self._short_of_memory([replica], ask, turn, only=True)
                self._busy.wanted = replica
                return self._busy
            return self._placed(replica, ask.work, now)
        why = ", and ".join(eligibility.obstacles(replica, now))
        message = (
            f"{only.what} is kept by replica {replica.name} of fleet {self.name}, which is not asked: {why}"
        )
        if eligibility.is_closed(replica):
            return Refusal("replica_closed", message, None)
        return Refusal("replica_unavailable", message, RETRY_AFTER_S)

    def _refuse(self, retried: bool, now: float) -> Refusal:
        if self._closed:
            return Refusal("fleet_removed", f"fleet {self.name} has been removed", None)
        if retried and self._eligible:
            return Refusal("no_other_replica", f"every eligible replica of fleet {self.name} was tried", None)
        message = eligibility.summary(self.name, self.replicas)
        if cold_start.is_cold(self.replicas):
            return cold_start.refusal(message, self.replicas, self.policy.queue, now)
        return Refusal("no_replica", message, RETRY_AFTER_S if self.replicas else None)
