"""A fleet in one worker: who is eligible, and who gets the next request.

:meth:`Pool.begin` picks and counts in one step, so that in-flight is counted by whoever sends, first.
It returns an :class:`Attempt`, whose holder owes exactly one :meth:`Attempt.settle` on every way out.

Eligibility is sorted out when something changed and on a slow timer that begin() itself looks at;
between those a pick costs one comparison and the strategy's loop. All times are monotonic seconds.
"""

from collections.abc import Iterator
from math import frexp, inf
from random import Random
from typing import cast

from routing import strategies
from routing.attempts.attempt import Attempt
from routing.attempts.watched import make_watched
from routing.contract.policy import Policy
from routing.contract.sketch import bucket_of
from routing.contract.table import FleetSnapshot, Version
from routing.contract.telemetry import FleetCounters
from routing.policies import cold_start, eligibility, host_view, reported_load, rest, setback, slow_start
from routing.policies.fleet_speed import FleetSpeed
from routing.policies.refusal import Refusal
from routing.policies.reported_load import Surroundings
from routing.policies.retry_budget import RetryBudget
from routing.policies.shared_learning import SharedLearning
from routing.pool.admission import Admission
from routing.pool.members import Members
from routing.pool.one_replica import OneReplica
from routing.pool.placing import ANY, CALLED, NEW, Placing
from routing.pool.report import Explanation, explanation, replica_counters
from routing.pool.sites import Sites
from routing.pool.verdicts import Verdicts
from routing.replica import Replica
from routing.replica_state.device_memory import Ask
from routing.shared.counts import SharedCounts
from routing.shared.host_share import HostShare
from routing.strategies.base import KeyedStrategy, Strategy
from routing.strategies.guarded import Guarded

__all__ = ["ANY", "CALLED", "NEW", "Attempt", "Explanation", "Pool", "Refusal"]

REFRESH_S = 0.1


class Pool(Placing):
    """One fleet's replicas, strategy and policies. Lives over table swaps; see :meth:`replace`."""

    def __init__(
        self,
        snapshot: FleetSnapshot,
        shared: SharedCounts | None = None,
        rng: Random | None = None,
        host_share: HostShare | None = None,
        site: str = "",
    ) -> None:
        """``site``: where the pool's requests come from; empty: it does not matter. Raises ValueError in
        words when the snapshot cannot be routed from."""
        self._rng = rng or Random()
        self._host_share = host_share or HostShare()
        self._shared = shared
        self._closed = False
        self._site = site

        self.counters = FleetCounters(name=snapshot.name)
        """The proxy counts here; :meth:`report` adds the rest."""
        self.speed = FleetSpeed()
        self._learning = None if shared is None else SharedLearning(snapshot.name, shared)
        self.budget = RetryBudget(snapshot.policy.retries.budget_percent)
        self.admission = Admission(snapshot.name, self.counters, shared)
        """Who waits where no replica has a place."""
        self._vacancies = self.admission.vacancies
        self._passed_up = self._leases = False
        self._limited = False
        """Whether requests may have to wait: for a place, or for the first replica."""
        self._members = Members(shared)
        self._verdicts = Verdicts(self._members, self.speed, self._rng, self._sort, shared)

        self._factors: dict[int, float] | None = None
        """What to correct estimates of work by; ``None``: nothing."""
        self._sorted = eligibility.Eligibility()
        self._eligible: list[Replica] = []
        self._probation: list[Replica] = []
        self._unusual = False
        """Whether a request may be begun otherwise than as usual: on probation, or watched."""
        self._seen_sites: Sites | None = None
        """The replicas by site, where sites may matter."""
        self._sites = None
        self._due = 0.0
        """When begin() has to look up: the slow timer or, with other workers, their counts."""
        self._refresh_due = 0.0
        self._rest = rest.Rest()
        self.replace(snapshot)

    def replace(self, snapshot: FleetSnapshot) -> None:
        """Route from a newer snapshot; replicas whose uid and URL match keep their live state.

        Raises ValueError in words, and changes nothing, when the snapshot cannot be routed from.
        """
        strategy = self._strategy(snapshot.policy)
        same = strategy is getattr(self, "strategy", None)
        elsewhere = self._elsewhere if same else self._built(snapshot.policy)
        again = None if same else self._built_again(strategy, snapshot.policy)
        check_limits(snapshot)
        pairs = self._members.prepare(snapshot)

        self.snapshot = snapshot
        self.name = snapshot.name
        self.protocol: str = snapshot.protocol
        self.served_model = snapshot.served_model
        self.renames = snapshot.protocol == "openai" and bool(snapshot.served_model or snapshot.aliases)
        """Whether a request's body may call the model by a name that the replicas do not know."""
        self.adapters = frozenset(snapshot.adapters)
        """Names of models that the replicas know besides."""
        self.policy: Policy = snapshot.policy
        self.max_body_bytes = snapshot.policy.limits.max_body_bytes
        self.version = Version(snapshot.epoch, snapshot.version)
        self.strategy = strategy
        self.affinity = strategy.affinity
        """What of a request is to be read for :meth:`begin`; ``None``: nothing."""
        self._elsewhere = elsewhere
        if again is not None:
            self._pick_of_found = again.pick
            self._pick_of_sample = getattr(again, "pick_of_sample", again.pick)
        self._pick = strategy.pick
        self._weighs = strategy.weighs_waiting
        self.speed.keep_answer_times(strategy.memory)
        self.budget.share = snapshot.policy.retries.budget_percent / 100
        self._verdicts.policy = snapshot.policy
        self._verdicts.fleet = snapshot.name
        self._verdicts.follow_strategy(goes_by_load=not strategy.weighs_waiting)
        self._members.take(pairs, snapshot.tls)
        for replica in self.replicas:
            replica.ask_load(snapshot.probe.load_header)
        self._count_sites()
        self._seen_sites = Sites.seen_from(self._site, snapshot.policy.locality, self.replicas)
        self._verdicts.site = "" if self._seen_sites is None else self._site
        self.admission.queue = queue = snapshot.policy.queue
        self._busy = Refusal("busy", "no replica has a place", None, queue.timeout_s)
        self._nobody()
        self.admission.call()

    def _strategy(self, policy: Policy) -> Strategy:
        """The one in force stays while no other is wanted, with what it has built for the replicas."""
        before: Policy | None = getattr(self, "policy", None)
        if before and (before.strategy, before.parameters) == (policy.strategy, policy.parameters):
            return self.strategy
        return self._built(policy)

    def _built_again(self, strategy: Strategy, policy: Policy) -> Strategy:
        """For lists that come once. What one of another package keeps is its own affair: it gets them all."""
        return strategy if isinstance(strategy, Guarded) else self._built(policy)

    @staticmethod
    def _built(policy: Policy) -> Strategy:
        return strategies.build(policy.strategy, policy.parameters)

    def close(self) -> None:
        """The fleet is gone: begin() refuses, shared counts are given back as requests end."""
        self._closed = True
        self._members.dissolve()
        self._nobody()
        self.admission.call()
        self.admission.unshare()
        if self._learning is not None:
            self._learning.close()
        self._verdicts.close()

    def _nobody(self) -> None:
        """Forget who is eligible; the next begin() sorts anew."""
        self._sorted = eligibility.Eligibility()
        self._sites = None
        self._eligible = self._probation = []
        self._unusual = False
        self._due = self._refresh_due = 0.0

    # --- the request path ------------------------------------------------------------------------

    def request_seen(self) -> None:
        """A client's request for this fleet has come."""
        self.counters.requests += 1
        self.budget.requests += 1

    def retry_allowed(self, unsent: bool = False) -> bool:
        """Take one retry out of the budget; whoever sends it counts it. ``unsent``: nothing was sent."""
        return self.budget.take(unsent)

    def has_other_than(self, tried: tuple[Replica, ...], now: float, turn: int = NEW) -> bool:
        """Whether a request that was at these replicas could go to another now, without waiting (more)."""
        if now >= self._due:
            self._look_up(now)
        if self.admission.crowded and turn == NEW:
            return False
        ask = Ask(self.speed.mean_work)
        return any(other not in tried for other in self._eligible if host_view.has_place(other, ask))

    def why_nobody(self, now: float) -> str:
        """Why no replica would be asked now, in words; empty: some would."""
        if now >= self._due:
            self._look_up(now)
        return "" if self._eligible else self._refuse(False, now).message

    def observe(self, seconds: float) -> None:
        """A client has its answer: seconds from complete request head to last response byte."""
        counts = self.counters.latency
        bucket = bucket_of(seconds)
        counts[bucket] = counts.get(bucket, 0) + 1

    def begin(
        self,
        work: float,
        now: float,
        tried: tuple[Replica, ...] | OneReplica = (),
        turn: int = NEW,
        since: float = inf,
        key: tuple[int, ...] = (),
        until: float = inf,
    ) -> Attempt | Refusal:
        """Pick a replica for a request and count it there.

        ``tried``: those it has been at already, or the one that alone can serve it.

        ``work``: estimated units; 0: there is no estimate (the fleet's mean is used). Below 0: so much, with
        the sign turned, is known, in tokens, and the answer's length is not (the fleet's mean is added).

        ``since``: when it began to wait, if it has.

        ``key``: what :attr:`affinity` reads in the request, as its hashes.

        ``until``: when its client stops waiting, if that is known.

        ``turn``: :data:`NEW`, :data:`CALLED` from the line, or :data:`ANY` place will do. A refusal that lets
        it wait (:attr:`Refusal.waits_s`) is the beginning of that: :class:`routing.pool.admission.Admission`.
        """
        if now >= self._due:
            self._look_up(now)
        if work <= 0.0:
            work = self.speed.estimated(work) if work else self.speed.mean_work
        if self._factors is not None:
            return self._begin_corrected(work, now, tried, turn, since, key, until)
        if self.admission.crowded and turn == NEW and not self.strategy.weighs_waiting:
            self._busy.wanted = None
            return self._busy
        candidates = self._eligible
        if tried:
            if isinstance(tried, OneReplica):
                return self._begin_at(tried, Ask(work, since), now, turn)
            candidates = [replica for replica in candidates if replica not in tried]
        elif self._unusual:
            found = self._begin_unusually(work, now, turn, since, key, until)
            if found is not None:
                return found
        size = len(candidates)
        if self._sites is not None and size:
            ask, again = Ask(work, since), bool(tried)
            return self._begin_by_site(self._sites, candidates, ask, now, turn, key, again, until)
        if key and size and self.affinity is not None:
            near = cast("KeyedStrategy", self.strategy)
            return self._begin_near(near, candidates, Ask(work, since), now, turn, key, bool(tried))
        if size > 1:
            pick = self._pick
            replica = pick(candidates, work, now, self._rng)
        elif size:
            replica = candidates[0]
        else:
            return self._refuse(bool(tried), now)
        if replica.limited:
            if replica.memory is None and (
                turn != NEW or not self._weighs or replica.load <= replica.in_flight + replica.peer_in_flight
            ):
                # As placing does, the usual case: there is a place and nobody waits for it.
                cells = replica.cells
                if cells is None or not cells.peers:
                    limit = replica.limit
                    has_place = limit is None or replica.in_flight < limit
                else:
                    has_place = host_view.claim_slot(replica)
                if has_place:
                    return Attempt(self._verdicts, self.speed, replica, work, now)
            return self._begin_where_free(replica, candidates, Ask(work, since), now, turn)
        return Attempt(self._verdicts, self.speed, replica, work, now)

    def _begin_corrected(
        self,
        told: float,
        now: float,
        tried: tuple[Replica, ...] | OneReplica,
        turn: int,
        since: float,
        key: tuple[int, ...],
        until: float,
    ) -> Attempt | Refusal:
        """With the estimate that what requests took has made of the one that was told."""
        factors, self._factors = self._factors, None
        assert factors is not None
        found = self.begin(told * factors.get(frexp(told)[1], 1.0), now, tried, turn, since, key, until)
        self._factors = factors
        if isinstance(found, Attempt):
            found.told = told
        return found

    def _begin_unusually(
        self, work: float, now: float, turn: int, since: float, key: tuple[int, ...], until: float
    ) -> Attempt | Refusal | None:
        """As a probe request, or as one that says who sent it; ``None``: begin it as usual."""
        if self._probation:
            attempt = self._probe(work, now)
            if attempt is not None:
                return attempt
        if not self._verdicts.watching:
            return None
        self._unusual = False
        found = self.begin(work, now, (), turn, since, key, until)
        self._unusual = True
        if type(found) is Attempt:
            make_watched(found)
        return found

    # --- the slow timer --------------------------------------------------------------------------

    @property
    def _sees_peers(self) -> bool:
        """Whether other workers of this host serve the fleet as well."""
        return self._shared is not None and bool(self._shared.peers)

    def _look_up(self, now: float) -> None:
        if now >= self._refresh_due:
            self.refresh(now)
        elif self._sees_peers:
            host_view.read_counts(self._eligible)
            self._vacancies.forget()
            if self._limited:
                self.admission.look_at_peers()
        self._due = self._refresh_due
        if self._sees_peers:
            self._due = min(self._due, now + host_view.counts_every_s(len(self._eligible)))

    def refresh(self, now: float) -> None:
        """Bring everything that depends on time up to date. begin() does so; reports do as well."""
        self._refresh_due = self._due = now + REFRESH_S
        replicas = self.replicas
        self.budget.rotate(now)
        self._limited = self.policy.queue.cold == "hold"
        since = self.admission.line.since
        waited_s = now - since if since else 0.0
        self._rest.look(self._eligible, waited_s, self.speed.mean_seconds)
        for replica in replicas:
            self._ramp(replica, now)
            cold_start.follow(replica, now)
        if any(replica.reported is not None for replica in replicas):
            period_s, proxies = self.snapshot.probe.period_s, self._host_share.count
            around = Surroundings(period_s, self.speed.mean_work, proxies)
            reported_load.correct(replicas, now, around)
        if self._shared is not None:
            self._members.repair_cells()
            host_view.read_counts(replicas)
            if self._learning is not None:
                self.speed.exchange(replicas, self._learning, now)
        self.admission.size = self._host_share.of(self.policy.queue.size)
        if self._limited:
            self.admission.refresh(now)
        else:
            self.admission.look_at_peers()
        self._verdicts.review(now)
        self.speed.refresh(replicas, now)
        # Memory is reserved for what a client may use, not for what others did.
        self._leases = any(replica.memory is not None for replica in replicas)
        self._factors = None if self._leases else self.speed.correction.factors
        self._sort(now)

    def _ramp(self, replica: Replica, now: float) -> None:
        spec = replica.spec
        over_s = slow_start.duration_s(self.policy.slow_start_s, self.speed.mean_seconds)
        share = slow_start.advance(replica, now, over_s)
        limit = spec.max_concurrency if spec.max_concurrency is not None else self.policy.max_concurrency
        own = None if limit is None else self._host_share.of(limit)
        places = own if self.policy.queue.at == "proxy" else None
        rests = share < 1.0 and self._rest.is_due(replica, share, has_places=places is not None)
        replica.concurrency = slow_start.slots(own, share)
        if replica.set_back_until:
            share *= setback.share(replica, now)
        elif rests and places is None:
            share *= rest.SHARE
        replica.ramp = share
        replica.share = spec.weight * share
        replica.limit = None if places is None else replica.concurrency
        if replica.limit and (rests or replica.set_back_until):
            replica.limit = 0
        replica.limited = limited = replica.limit is not None or replica.memory is not None
        replica.freed = self.admission.freed if limited else None
        self._limited |= limited

    def _sort(self, now: float) -> None:
        self._vacancies.forget()
        self._sorted = found = eligibility.sort_out(self.replicas, now, self._verdicts.site)
        self._eligible = found.eligible
        self._probation = found.probation
        self._unusual = bool(found.probation) or self._verdicts.watching
        sites = self._seen_sites
        self._sites = sites if sites is not None and sites.divide(found) else None
        if found.next_end:
            self._refresh_due = min(self._refresh_due, found.next_end)
            self._due = min(self._due, self._refresh_due)

    # --- telling ---------------------------------------------------------------------------------

    def explain(self, now: float) -> list[Explanation]:
        """For each replica: eligible, or why not, and whether it is asked, in plain words."""
        self.refresh(now)
        work, sites = self.speed.mean_work, self._sites
        return [explanation(replica, self._sorted, now, work, sites) for replica in self.replicas]

    def _count_sites(self) -> None:
        if self._seen_sites is not None:
            stayed, spilled = self._seen_sites.went()
            self.counters.stayed += stayed
            self.counters.spilled += spilled

    def report(self, now: float, refused: str = "") -> FleetCounters:
        """Everything counted since the worker started. Not a copy: encode it before the next request."""
        self.admission.report(now)
        self._count_sites()
        self.counters.applied = str(self.version)
        speed = self.speed
        self.counters.usual_s = speed.mean_seconds
        self.counters.usual_work = speed.mean_work if speed.mean_seconds else 0.0
        self.counters.answer_tokens = speed.known_answer_tokens
        self.counters.estimates_explain = speed.correction.explained
        self.counters.estimates_corrected = self._factors is not None
        self.counters.refused = refused
        strategy = self.strategy
        self.counters.strategy_trouble = strategy.trouble(now) if isinstance(strategy, Guarded) else ""
        self.counters.replicas = [replica_counters(r, now) for r in (*self.replicas, *self._members.leaving)]
        return self.counters

    def __repr__(self) -> str:
        return f"<Pool {self.name} {self.version} {len(self._eligible)} of {len(self.replicas)} eligible>"


def check_limits(snapshot: FleetSnapshot) -> None:
    """Raise ValueError in words for values that cannot be routed from."""
    for where, limit in _limits(snapshot):
        if limit is not None and limit < 1:
            raise ValueError(f"max_concurrency of {where} must be at least 1, not {limit}")
    seen: set[str] = set()
    for spec in snapshot.replicas:
        if not 0 <= spec.weight < float("inf"):
            raise ValueError(f"weight of replica {spec.name} must be 0 or more, not {spec.weight!r}")
        if spec.uid in seen:
            raise ValueError(f"two replicas of fleet {snapshot.name} have the uid {spec.uid}")
        seen.add(spec.uid)


def _limits(snapshot: FleetSnapshot) -> Iterator[tuple[str, int | None]]:
    yield f"fleet {snapshot.name}", snapshot.policy.max_concurrency
    for spec in snapshot.replicas:
        yield f"replica {spec.name}", spec.max_concurrency
