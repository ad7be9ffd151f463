"""Pool: a fleet in one worker: who is eligible, and who gets the next request (load balancing).

:meth:`Pool.begin` picks and counts in one step, so that in-flight is counted by whoever sends, first.
It returns an :class:`Attempt`, whose holder owes exactly one :meth:`Attempt.settle` on every way out.

Eligibility is sorted out when something changed and on a slow timer that begin() itself looks at;
between those a pick costs one comparison and the strategy's loop. All times are monotonic seconds.
"""

from collections.abc import Iterator
from math import frexp, inf
from random import Random
from typing import cast

from routing.balancing import strategies
from routing.balancing.admission import fleet_warmup
from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.retry_budget import RetryBudget
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.monitored import monitor_attempt
from routing.balancing.learning import reported_load
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.learning.reported_load import ReportContext
from routing.balancing.learning.shared_learning import SharedLearning
from routing.balancing.locality.site_split import SiteSplit
from routing.balancing.outlier import eligibility, slow_start, slow_start_pacing, soft_ejection
from routing.balancing.outlier.outlier_detector import OutlierDetector
from routing.balancing.pool.endpoint_set import EndpointSet
from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.report import ReplicaExplanation, explanation, replica_counters
from routing.balancing.pool.slow_path import ANY_SLOT, DEQUEUED, NEW, SlowPath
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import KeyedStrategy, Strategy
from routing.balancing.strategies.fault_isolation import IsolatedStrategy
from routing.contract.policy import Policy
from routing.contract.sketch import bucket_of
from routing.contract.table import FleetSnapshot, Version
from routing.contract.telemetry import FleetCounters
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters

__all__ = ["ANY_SLOT", "DEQUEUED", "NEW", "Attempt", "Pool", "Rejection", "ReplicaExplanation"]

REFRESH_S = 0.1


class Pool(SlowPath):
    """One fleet's replicas, strategy and policies. Lives over table swaps; see :meth:`replace`."""

    def __init__(
        self,
        snapshot: FleetSnapshot,
        shared: SharedCounters | None = None,
        rng: Random | None = None,
        quota_share: QuotaShare | None = None,
        site: str = "",
    ) -> None:
        """``site``: where the pool's requests come from; empty: it does not matter. Raises ValueError in
        words when the snapshot cannot be routed from."""
        self._rng = rng or Random()
        self._host_share = quota_share or QuotaShare()
        self._shared = shared
        self._closed = False
        self._site = site

        self.counters = FleetCounters(name=snapshot.name)
        """The proxy counts here; :meth:`report` adds the rest."""
        self.speed = FleetSpeed()
        self._learning = None if shared is None else SharedLearning(snapshot.name, shared)
        self.budget = RetryBudget(snapshot.policy.retries.budget_percent)
        self.admission = AdmissionQueue(snapshot.name, self.counters, shared)
        """Who waits where no replica has a place."""
        self._free_slots = self.admission.free_slots
        self._declined_slot = self._reserves_memory = False
        self._limited = False
        """Whether requests may have to wait: for a place, or for the first replica."""
        self._endpoints = EndpointSet(shared)
        self._outlier_detector = OutlierDetector(
            self._listed, self._endpoints.emptied, self.speed, self._rng, self._sort, shared
        )

        self._factors: dict[int, float] | None = None
        """What to correct estimates of work by; ``None``: nothing."""
        self._sorted = eligibility.Eligibility()
        self._eligible: list[Replica] = []
        self._on_probation: list[Replica] = []
        self._unusual = False
        """Whether a request may be begun otherwise than as usual: on probation, or watched."""
        self._all_sites: SiteSplit | None = None
        """The replicas by site, where sites may matter."""
        self._sites = None
        self._due = 0.0
        """When begin() has to look up: the slow timer or, with other workers, their counts."""
        self._refresh_due = 0.0
        self._pacer = slow_start_pacing.SlowStartPacer()
        self.replace(snapshot)

    def replace(self, snapshot: FleetSnapshot) -> None:
        """Route from a newer snapshot; replicas whose uid and URL match keep their live state.

        Raises ValueError in words, and changes nothing, when the snapshot cannot be routed from.
        """
        strategy = self._strategy(snapshot.policy)
        same = strategy is getattr(self, "strategy", None)
        elsewhere = self._remote_strategy if same else self._built(snapshot.policy)
        again = None if same else self._built_again(strategy, snapshot.policy)
        check_limits(snapshot)
        pairs = self._endpoints.prepare(snapshot)

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
        self._remote_strategy = elsewhere
        if again is not None:
            self._pick_of_found = again.pick
            self._pick_of_sample = getattr(again, "pick_of_sample", again.pick)
        self._pick = strategy.pick
        self._weighs = strategy.weighs_waiting
        self.speed.track_latency(strategy.memory)
        self.budget.share = snapshot.policy.retries.budget_percent / 100
        self._outlier_detector.policy = snapshot.policy
        self._outlier_detector.fleet = snapshot.name
        self._outlier_detector.follow_strategy(goes_by_load=not strategy.weighs_waiting)
        self._endpoints.take(pairs, snapshot.tls)
        for replica in self.replicas:
            replica.ask_load(snapshot.probe.load_header)
        self._count_sites()
        self._all_sites = SiteSplit.seen_from(self._site, snapshot.policy.locality, self.replicas)
        self._outlier_detector.site = "" if self._all_sites is None else self._site
        self.admission.policy = queue = snapshot.policy.queue
        self._busy = Rejection("busy", "no replica has a place", None, queue.timeout_s)
        self._nobody()
        self.admission.wake_next()

    def _strategy(self, policy: Policy) -> Strategy:
        """The one in force stays while no other is wanted, with what it has built for the replicas."""
        before: Policy | None = getattr(self, "policy", None)
        if before and (before.strategy, before.parameters) == (policy.strategy, policy.parameters):
            return self.strategy
        return self._built(policy)

    def _built_again(self, strategy: Strategy, policy: Policy) -> Strategy:
        """For lists that come once. What one of another package keeps is its own affair: it gets them all."""
        return strategy if isinstance(strategy, IsolatedStrategy) else self._built(policy)

    @staticmethod
    def _built(policy: Policy) -> Strategy:
        return strategies.build(policy.strategy, policy.parameters)

    def close(self) -> None:
        """The fleet is gone: begin() refuses, shared counts are given back as requests end."""
        self._closed = True
        self._endpoints.dissolve()
        self._nobody()
        self.admission.wake_next()
        self.admission.unshare()
        if self._learning is not None:
            self._learning.close()
        self._outlier_detector.close()

    def _nobody(self) -> None:
        """Forget who is eligible; the next begin() sorts anew."""
        self._sorted = eligibility.Eligibility()
        self._sites = None
        self._eligible = self._on_probation = []
        self._unusual = False
        self._due = self._refresh_due = 0.0

    # --- the request path ------------------------------------------------------------------------

    def request_seen(self) -> None:
        """A client's request for this fleet has come."""
        self.counters.requests += 1
        self.budget.requests += 1

    def retry_allowed(self, unsent: bool = False) -> bool:
        """Take one retry out of the budget; its sender counts it. ``unsent``: nothing was sent."""
        return self.budget.take(unsent)

    def has_other_than(self, tried: tuple[Replica, ...], now: float, turn: int = NEW) -> bool:
        """Whether a request that was at these replicas could go to another now, without waiting (more)."""
        if now >= self._due:
            self._look_up(now)
        if self.admission.has_waiters and turn == NEW:
            return False
        demand = Demand(self.speed.mean_work)
        return any(other not in tried for other in self._eligible if sibling_load.has_slot(other, demand))

    def why_nobody(self, now: float) -> str:
        """Why no replica would be asked now, in words; empty: some would."""
        if now >= self._due:
            self._look_up(now)
        return "" if self._eligible else self._reject(False, now).message

    def observe(self, seconds: float) -> None:
        """A client has its answer: seconds from complete request head to last response byte."""
        counts = self.counters.latency
        bucket = bucket_of(seconds)
        counts[bucket] = counts.get(bucket, 0) + 1

    def begin(
        self,
        work: float,
        now: float,
        tried: tuple[Replica, ...] | PinnedReplica = (),
        turn: int = NEW,
        since: float = inf,
        key: tuple[int, ...] = (),
        until: float = inf,
    ) -> Attempt | Rejection:
        """Pick a replica for a request and count it there.

        ``tried``: those it has been at already, or the one that alone can serve it.

        ``work``: estimated units; 0: there is no estimate (the fleet's mean is used). Below 0: so much, with
        the sign turned, is known, in tokens, and the answer's length is not (the fleet's mean is added).

        ``since``: when it began to wait, if it has.

        ``key``: what :attr:`affinity` reads in the request, as its hashes.

        ``until``: when its client stops waiting, if that is known.

        ``turn``: :data:`NEW`, :data:`DEQUEUED` from the line, or :data:`ANY_SLOT` place will do. A refusal
        that lets it wait (:attr:`Rejection.max_wait_s`) is the beginning of that:
        :class:`routing.balancing.admission.admission_queue.AdmissionQueue`."""
        if now >= self._due:
            self._look_up(now)
        if work <= 0.0:
            work = self.speed.estimated(work) if work else self.speed.mean_work
        if self._factors is not None:
            return self._begin_calibrated(work, now, tried, turn, since, key, until)
        if self.admission.has_waiters and turn == NEW and not self.strategy.weighs_waiting:
            self._busy.preferred = None
            return self._busy
        candidates = self._eligible
        if tried:
            if isinstance(tried, PinnedReplica):
                return self._begin_at(tried, Demand(work, since), now, turn)
            candidates = [replica for replica in candidates if replica not in tried]
        elif self._unusual:
            found = self._begin_monitored(work, now, turn, since, key, until)
            if found is not None:
                return found
        size = len(candidates)
        if self._sites is not None and size:
            demand, again = Demand(work, since), bool(tried)
            return self._begin_by_site(self._sites, candidates, demand, now, turn, key, again, until)
        if key and size and self.affinity is not None:
            near = cast("KeyedStrategy", self.strategy)
            return self._begin_by_key(near, candidates, Demand(work, since), now, turn, key, bool(tried))
        if size > 1:
            pick = self._pick
            replica = pick(candidates, work, now, self._rng)
        elif size:
            replica = candidates[0]
        else:
            return self._reject(bool(tried), now)
        if replica.limited:
            if replica.memory is None and (
                turn != NEW or not self._weighs or replica.load <= replica.in_flight + replica.peer_in_flight
            ):
                # As placing does, the usual case: there is a place and nobody waits for it.
                cells = replica.cells
                if cells is None or not cells.siblings:
                    limit = replica.limit
                    has_slot = limit is None or replica.in_flight < limit
                else:
                    has_slot = sibling_load.claim_slot(replica)
                if has_slot:
                    return Attempt(self._outlier_detector, self.speed, replica, work, now)
            return self._begin_where_free(replica, candidates, Demand(work, since), now, turn)
        return Attempt(self._outlier_detector, self.speed, replica, work, now)

    def _begin_calibrated(
        self,
        uncalibrated_work: float,
        now: float,
        tried: tuple[Replica, ...] | PinnedReplica,
        turn: int,
        since: float,
        key: tuple[int, ...],
        until: float,
    ) -> Attempt | Rejection:
        """With the estimate that what requests took has made of the one that was told."""
        factors, self._factors = self._factors, None
        assert factors is not None
        found = self.begin(
            uncalibrated_work * factors.get(frexp(uncalibrated_work)[1], 1.0),
            now,
            tried,
            turn,
            since,
            key,
            until,
        )
        self._factors = factors
        if isinstance(found, Attempt):
            found.uncalibrated_work = uncalibrated_work
        return found

    def _begin_monitored(
        self, work: float, now: float, turn: int, since: float, key: tuple[int, ...], until: float
    ) -> Attempt | Rejection | None:
        """As a probe request, or as one that says who sent it; ``None``: begin it as usual."""
        if self._on_probation:
            attempt = self._probe(work, now)
            if attempt is not None:
                return attempt
        if not self._outlier_detector.monitoring:
            return None
        self._unusual = False
        found = self.begin(work, now, (), turn, since, key, until)
        self._unusual = True
        if type(found) is Attempt:
            monitor_attempt(found)
        return found

    # --- the slow timer --------------------------------------------------------------------------

    @property
    def _sees_peers(self) -> bool:
        """Whether other workers of this host serve the fleet as well."""
        return self._shared is not None and bool(self._shared.siblings)

    def _look_up(self, now: float) -> None:
        if now >= self._refresh_due:
            self.refresh(now)
        elif self._sees_peers:
            sibling_load.read_counts(self._eligible)
            self._free_slots.forget()
            if self._limited:
                self.admission.look_at_peers()
        self._due = self._refresh_due
        if self._sees_peers:
            self._due = min(self._due, now + sibling_load.counts_every_s(len(self._eligible)))

    def refresh(self, now: float) -> None:
        """Bring everything that depends on time up to date. begin() does so; reports do as well."""
        self._refresh_due = self._due = now + REFRESH_S
        replicas = self.replicas
        self.budget.rotate(now)
        self._limited = self.policy.queue.cold == "hold"
        since = self.admission.queue.since
        waited_s = now - since if since else 0.0
        self._pacer.look(self._eligible, waited_s, self.speed.mean_seconds)
        for replica in replicas:
            self._ramp(replica, now)
            fleet_warmup.follow(replica, now)
        if any(replica.reported is not None for replica in replicas):
            period_s, proxies = self.snapshot.probe.period_s, self._host_share.count
            around = ReportContext(period_s, self.speed.mean_work, proxies)
            reported_load.correct(replicas, now, around)
        if self._shared is not None:
            self._endpoints.repair_cells()
            sibling_load.read_counts(replicas)
            if self._learning is not None:
                self.speed.exchange(replicas, self._learning, now)
        self.admission.size = self._host_share.of(self.policy.queue.size)
        if self._limited:
            self.admission.refresh(now)
        else:
            self.admission.look_at_peers()
        self._outlier_detector.review(now)
        self.speed.refresh(replicas, now)
        # Memory is reserved for what a client may use, not for what others did.
        self._reserves_memory = any(replica.memory is not None for replica in replicas)
        self._factors = None if self._reserves_memory else self.speed.calibration.factors
        self._sort(now)

    def _ramp(self, replica: Replica, now: float) -> None:
        spec = replica.spec
        over_s = slow_start.duration_s(self.policy.slow_start_s, self.speed.mean_seconds)
        share = slow_start.advance(replica, now, over_s)
        limit = spec.max_concurrency if spec.max_concurrency is not None else self.policy.max_concurrency
        own = None if limit is None else self._host_share.of(limit)
        places = own if self.policy.queue.at == "proxy" else None
        paced = share < 1.0 and self._pacer.is_due(replica, share, has_slots=places is not None)
        replica.concurrency = slow_start.slots(own, share)
        if replica.soft_ejected_until:
            share *= soft_ejection.share(replica, now)
        elif paced and places is None:
            share *= slow_start_pacing.SHARE
        replica.ramp = share
        replica.share = spec.weight * share
        replica.limit = None if places is None else replica.concurrency
        if replica.limit and (paced or replica.soft_ejected_until):
            replica.limit = 0
        replica.limited = limited = replica.limit is not None or replica.memory is not None
        replica.slot_freed = self.admission.slot_freed if limited else None
        self._limited |= limited

    def _sort(self, now: float) -> None:
        self._free_slots.forget()
        self._sorted = found = eligibility.partition(self.replicas, now, self._outlier_detector.site)
        self._eligible = found.eligible
        self._on_probation = found.probation
        self._unusual = bool(found.probation) or self._outlier_detector.monitoring
        sites = self._all_sites
        self._sites = sites if sites is not None and sites.divide(found) else None
        if found.next_end:
            self._refresh_due = min(self._refresh_due, found.next_end)
            self._due = min(self._due, self._refresh_due)

    # --- telling ---------------------------------------------------------------------------------

    def explain(self, now: float) -> list[ReplicaExplanation]:
        """For each replica: eligible, or why not, and whether it is asked, in plain words."""
        self.refresh(now)
        work, sites = self.speed.mean_work, self._sites
        return [explanation(replica, self._sorted, now, work, sites) for replica in self.replicas]

    def _count_sites(self) -> None:
        if self._all_sites is not None:
            stayed, spilled = self._all_sites.went()
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
        self.counters.estimates_explain = speed.calibration.explained
        self.counters.estimates_corrected = self._factors is not None
        self.counters.refused = refused
        strategy = self.strategy
        self.counters.strategy_trouble = (
            strategy.trouble(now) if isinstance(strategy, IsolatedStrategy) else ""
        )
        self.counters.replicas = [
            replica_counters(r, now) for r in (*self.replicas, *self._endpoints.leaving)
        ]
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
