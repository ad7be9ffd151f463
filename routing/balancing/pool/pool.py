"""Pool (upstream cluster): one fleet in one worker. Knows the eligible replicas, picks one for each request.

:meth:`Pool.begin` picks a replica and counts the request in flight there, in one step. It returns an
:class:`Attempt`. Its holder must call :meth:`Attempt.settle` exactly once, on every way out.

Eligibility is computed when something has changed, and on a slow timer that begin() itself checks. Otherwise
a pick costs one comparison and the strategy's loop. All times are monotonic seconds.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from math import frexp, inf
from random import Random
from typing import Final, cast

from routing.balancing.admission.admission_queue import AdmissionQueue
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.retry_budget import RetryBudget
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.predicted_attempt import PredictedAttempt
from routing.balancing.attempt.stated_work import StatedAttempt
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.learning.odds import Odds
from routing.balancing.learning.service_shape import prior_of
from routing.balancing.learning.shared_learning import SharedLearning
from routing.balancing.locality.site_split import SiteSplit
from routing.balancing.outlier import eligibility, resting
from routing.balancing.outlier.ejection import UNREACHABLE
from routing.balancing.outlier.outlier_detector import OutlierDetector
from routing.balancing.pool.adapter_replicas import AdapterPlacement, AdapterReplicas, Adapters
from routing.balancing.pool.candidates import CandidateSearch
from routing.balancing.pool.due_pick import Due, best_chance
from routing.balancing.pool.endpoint_set import INTRODUCED_AT_ONCE, KNOWN_STEP, EndpointSet, Pairs
from routing.balancing.pool.exposed import Exposed
from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.prefix_columns import PrefixColumns
from routing.balancing.pool.refresh_cycle import WHOLE, RefreshCycle
from routing.balancing.pool.report import (
    ReplicaExplanation,
    explanations,
    fill_fleet_counters,
    replica_counters,
)
from routing.balancing.pool.second_attempts import SecondAttempts
from routing.balancing.pool.slow_path import ANY_SLOT, DEQUEUED, NEW, SlowPath
from routing.balancing.pool.slow_timer import SlowTimer
from routing.balancing.pool.snapshot_checks import check_limits, checked_limits
from routing.balancing.pool.terms import Terms, terms_of
from routing.balancing.replica import sibling_load
from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import KeyedStrategy, PrefixStrategy, PreparingStrategy, Strategy
from routing.contract.sketch import bucket_of
from routing.contract.table import FleetSnapshot, Version
from routing.contract.telemetry import FleetCounters, ReplicaCounters
from routing.shared.fleet_totals import FleetTotals, private_totals
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters

__all__ = ["ANY_SLOT", "DEQUEUED", "NEW", "Attempt", "Pool", "Rejection", "ReplicaExplanation"]

LEAST_CHARGED: Final = 1e-6
MOST_CHARGED: Final = 1e6
"""Whatever a request says of itself: sums of charges stay exact, and no client is served for nothing."""


class Pool:
    """One fleet's replicas, strategy and policies. Lives over table swaps; see :meth:`replace`."""

    def __init__(
        self,
        snapshot: FleetSnapshot,
        shared: SharedCounters | None = None,
        rng: Random | None = None,
        quota_share: QuotaShare | None = None,
        site: str = "",
        staged: bool = False,
        in_slices: bool = False,
        prefixes: PrefixMemory | None = None,
        totals: FleetTotals | None = None,
    ) -> None:
        """``site``: where the pool's requests come from; empty: it does not matter. ``staged``: the snapshot
        is without its replicas; they come with :meth:`replace`, as if they had been there. ``in_slices``:
        begin() refreshes a large pool in slices, and :meth:`refresh_some` is called each second, for the time
        without requests. ``prefixes``: the memory of prompts that the host's workers share. ``totals``: where
        ended requests are counted. Raises ValueError in words when the snapshot cannot be routed from."""
        self._rng = rng or Random()
        self._host_share = quota_share or QuotaShare()
        self._shared = shared
        self._site = site
        terms = terms_of(snapshot)

        self.counters = FleetCounters(name=snapshot.name)
        """The proxy counts here; :meth:`report` adds the rest."""
        self.totals = private_totals() if totals is None else totals
        """It counts there too, when a request has ended."""
        self.speed = FleetSpeed()
        self._predictions = self.speed.predictions
        self._learning = None if shared is None else SharedLearning(snapshot.name, shared)
        self.budget = RetryBudget(
            snapshot.policy.retries.budget_percent, snapshot.policy.fallback_budget_percent
        )
        self.admission = AdmissionQueue(snapshot.name, self.counters, shared)
        """The queue of requests for which no replica has a slot."""
        self.seconds = SecondAttempts(self.speed, self.budget, self.admission, self.counters)
        """When a request that waits at a replica is sent to another one as well."""
        self._endpoints = EndpointSet(shared)
        self._prefix_columns = PrefixColumns(prefixes)
        self._outlier_detector = OutlierDetector(
            lambda: self._endpoints.listed,
            self._endpoints.on_drained,
            self.speed,
            self._rng,
            self._changed,
            shared,
        )
        self._search = CandidateSearch(self.admission.free_slots, shared, terms.passing_strategy, self._rng)
        self._slow_path = SlowPath(
            terms, self._endpoints, self._search, self._outlier_detector, self.speed, self.counters, self._rng
        )

        self.adapter_replicas = AdapterReplicas(self._another_strategy)
        """Which replicas serve which adapter."""
        self._factors: dict[int, float] | None = None
        """Calibration of work estimates: binary exponent → factor; ``None``: none."""
        self._eligible: list[Replica] = []
        self._detour = False
        """Whether a request may need more than the usual path: estimates are calibrated, a replica on
        probation needs its probe request, one is starved or held to its share, attempts are monitored, sites
        matter, or the next request is a sample of predictions."""
        self._needs_detour = False
        """The same for all of them, not only the next."""
        self._all_sites: SiteSplit | None = None
        """The replicas by site, where sites may matter."""
        self._due = 0.0
        """When begin() must refresh: everything or, with sibling workers, their counts."""
        self._host_is_shared = False
        self._further_down: Collection[bytes] = ()
        self.refusals_noted: set[str] = set()
        """What the proxy has logged of a fleet without ``expose``. Kept over table swaps."""
        self._derived: tuple[Pairs, list[Callable[[], None]]] = [], []
        """What strategies have derived from replicas that are prepared."""
        self._in_slices = in_slices
        self._cycle = RefreshCycle(
            self._endpoints,
            self.speed,
            self.admission,
            self._outlier_detector,
            self._host_share,
            self._learning,
            self._prefix_columns,
        )
        self._timer = SlowTimer(
            self._cycle, self._search, self.admission, self.budget, self._sort, self._refreshed
        )
        self.replace(snapshot)
        if staged:
            self._endpoints.unsettle()

    @property
    def replicas(self) -> list[Replica]:
        """The replicas in the table, in its order."""
        return self._endpoints.listed

    @property
    def prefix_strategy(self) -> PrefixStrategy | None:
        """The strategy, if it remembers which prompts replicas were sent."""
        strategy = self._slow_path.terms.strategy
        return strategy if isinstance(strategy, PrefixStrategy) else None

    @property
    def swaps(self) -> int:
        """How often its replicas were replaced: what was prepared before is of no use after."""
        return self._endpoints.swaps

    def prepare(self, snapshot: FleetSnapshot) -> Generator[None, None, Pairs]:
        """What of :meth:`replace` takes long for many replicas, in steps. Changes nothing that requests see.
        Raises as it does; what is not used then must be dropped (:meth:`drop`)."""
        for number, _ in enumerate(checked_limits(snapshot)):
            if number % KNOWN_STEP == 0:
                yield
        pairs = yield from self._endpoints.prepare_in_steps(snapshot)
        for at in range(0, len(pairs), INTRODUCED_AT_ONCE):
            some = [replica for replica, _ in pairs[at : at + INTRODUCED_AT_ONCE]]
            self._cycle.introduce(some, joins=self._endpoints.settled)
            yield
        terms = self._slow_path.terms
        members = [(replica, spec.weight) for replica, spec in pairs]
        derived = []
        for strategy in (terms.strategy, terms.remote_strategy) if self._site else (terms.strategy,):
            if isinstance(strategy, PreparingStrategy):
                derived.append((yield from strategy.prepare(members)))  # noqa: PERF401 (it yields)
        self._derived = pairs, derived
        return pairs

    def drop(self, pairs: Pairs) -> None:
        """What :meth:`prepare` returned is not used."""
        self._endpoints.drop(pairs)
        self._derived = [], []

    def tidy(self) -> Iterator[None]:
        """What :meth:`replace` and :meth:`close` left to be done in steps."""
        return self._endpoints.tidy()

    def replace(self, snapshot: FleetSnapshot, pairs: Pairs | None = None, in_steps: bool = False) -> None:
        """Route from a newer snapshot; replicas whose uid and URL match keep their live state.

        ``pairs``: what :meth:`prepare` made of it. ``in_steps``: :meth:`tidy` follows.

        Raises ValueError in words, and changes nothing, when the snapshot cannot be routed from.
        """
        terms = terms_of(snapshot, self._slow_path.terms)
        if pairs is None:
            check_limits(snapshot)
            pairs = self._endpoints.prepare(snapshot)

        self.snapshot = snapshot
        self.name = snapshot.name
        self.protocol: str = snapshot.protocol
        self.served_model = snapshot.served_model
        self.renames = snapshot.protocol == "openai" and bool(snapshot.served_model or snapshot.aliases)
        """Whether a request's body may call the model by a name that the replicas do not know."""
        self.adapters = frozenset(snapshot.adapters)
        """Further names of models that the replicas serve."""
        self._follow_exposed()
        self.policy = snapshot.policy
        self.first_token_s = snapshot.policy.slo.first_token_s or 0.0
        """Within so many seconds streams should begin; 0: there is no such objective."""
        self.fallback = snapshot.policy.fallback
        """Where its requests go that it cannot serve; empty: nowhere."""
        self.max_body_bytes = snapshot.policy.limits.max_body_bytes
        self.version = Version(snapshot.epoch, snapshot.version)
        self._prefix_columns.share(terms, len(snapshot.replicas))
        self._follow(terms)
        self.seconds.follow(snapshot.policy)
        self.totals.follow(snapshot.policy.slo)
        self.budget.share = snapshot.policy.retries.budget_percent / 100
        self.budget.fallback_share = snapshot.policy.fallback_budget_percent / 100
        self._outlier_detector.policy = snapshot.policy
        self._outlier_detector.fleet = snapshot.name
        self._endpoints.take(pairs, snapshot.tls, in_steps)
        prepared, derived = self._derived
        if prepared is pairs:
            for use in derived:
                use()
        self._derived = [], []
        asks = snapshot.probe.load_header
        for replica in self.replicas:
            if replica.load_reports.asked != asks:
                replica.ask_load(asks)
        self.adapter_replicas.follow(snapshot.adapters, self.replicas)
        self._count_sites()
        self._all_sites = SiteSplit.seen_from(self._site, snapshot.policy.locality, self.replicas)
        self._outlier_detector.census.site = "" if self._all_sites is None else self._site
        self.admission.policy = snapshot.policy.queue
        self.speed.shape.follow(snapshot.policy.serves, prior_of(snapshot.protocol, snapshot.probe.preset))
        self._cycle.follow(snapshot)
        self._timer.in_slices = self._in_slices and len(self.replicas) > WHOLE
        self.reads_requests = self.affinity is not None or self.adapter_replicas.matter
        """Whether a request's replica depends on more than its work: on its key, or on adapters that it
        names."""
        self._clear_eligibility()
        self.admission.wake_next()

    def share_hosts(self, shared: bool, further_down: Collection[bytes]) -> None:
        """Whether another fleet has a replica at the address of one of these, and path prefixes of such ones
        that are below this fleet's."""
        self._host_is_shared, self._further_down = shared, further_down
        self._follow_exposed()

    def _follow_exposed(self) -> None:
        self.exposed = Exposed(self.snapshot, self._host_is_shared, self._further_down)
        """Which paths and models requests may name."""
        self.requires = self.exposed.required
        """What a request's route must open, as a bit; 0: the request is looked at."""

    def _follow(self, terms: Terms) -> None:
        """Pick by these terms from now on."""
        self._slow_path.follow(terms)
        self._search.follow(terms.passing_strategy)
        self.strategy = strategy = terms.strategy
        self.affinity = strategy.affinity
        """Which part of a request is its key for :meth:`begin`; ``None``: the strategy uses no key."""
        self._pick = strategy.pick
        self._weighs_waiting = strategy.weighs_waiting
        self.speed.track_latency(strategy.memory)
        self._outlier_detector.follow_strategy(goes_by_load=not strategy.weighs_waiting)

    def _another_strategy(self) -> Strategy:
        terms = self._slow_path.terms
        strategy = terms.another_strategy()
        self._prefix_columns.give(strategy, terms.name, len(self.replicas))
        return strategy

    def close(self, in_steps: bool = False) -> None:
        """The fleet was removed: begin() rejects, and shared cells are given back as requests end.
        ``in_steps``: :meth:`tidy` follows."""
        self._slow_path.closed = True
        self._endpoints.retire_all(in_steps)
        self._clear_eligibility()
        self.admission.wake_next()
        self.admission.unshare()
        if self._learning is not None:
            self._learning.close()
        self._outlier_detector.close()

    def _clear_eligibility(self) -> None:
        """Forget which replicas are eligible; the next begin() computes it."""
        self._set_eligibility(eligibility.Eligibility())
        self._timer.restart()
        self._due = 0.0

    # --- the request path ------------------------------------------------------------------------

    def request_seen(self) -> None:
        """Count a client's request for this fleet."""
        self.counters.requests += 1
        self.budget.requests += 1

    def retry_allowed(self, never_sent: bool = False) -> bool:
        """Take one retry out of the budget; the caller counts the retry. ``never_sent``: the failed attempt
        sent no byte."""
        return self.budget.take(never_sent)

    def refused(self, replica: Replica, status: int, retry_after_s: float, now: float) -> None:
        """The replica has answered with a status that says: not now. ``retry_after_s``: what it asks for, in
        seconds; below 0: it says nothing of that."""
        if resting.refused(replica, status, retry_after_s, now, self._rng):
            self._changed(now)

    def most_refuse(self, but: tuple[Replica, ...], now: float) -> bool:
        """Whether most of the eligible replicas, without these, have just refused requests."""
        return resting.most_refuse(self._eligible, but, now)

    def second_objection(self, own: Replica, now: float) -> str:
        """Why a request that waits there must not be sent to another replica as well, as a code; empty: it
        may. See :mod:`routing.balancing.pool.second_attempts`."""
        if now >= self._due:
            self._look_up(now)
        return self.seconds.objection(own, self._eligible, now)

    def has_other_than(
        self, excluded: tuple[Replica, ...], now: float, turn: int = NEW, adapters: Adapters = ()
    ) -> bool:
        """Whether a request could go to another replica than these now, without waiting (more).
        ``adapters``: as of :meth:`begin_for_adapters`."""
        if now >= self._due:
            self._look_up(now)
        if turn == NEW and (self.admission.anybody_waits if adapters else self.admission.has_waiters):
            return False
        candidates: Sequence[Replica] = self._eligible
        if adapters and (serving := self.adapter_replicas.serving(adapters)) is not None:
            candidates = serving.eligible(self._slow_path.eligibility)
        demand = Demand(self.speed.mean_work)
        return any(other not in excluded for other in candidates if sibling_load.has_slot(other, demand))

    def rejection(self, now: float) -> Rejection | None:
        """What a request would be rejected with now, without a pick; ``None``: a replica would get it."""
        if now >= self._due:
            self._look_up(now)
        return None if self._eligible else self._slow_path.reject(False, now)

    def charge(self, work: float) -> float:
        """What a client is charged for a request of estimated ``work`` that gets a slot from the queue, in
        requests of mean size. ``work``: as of :meth:`begin`."""
        share = self._calibrated(work) / (self.speed.mean_work or 1.0)
        return min(MOST_CHARGED, max(LEAST_CHARGED, share))

    def chance_in_time(self, work: float, now: float, due: Due) -> float | None:
        """How likely such a request would be in time at the eligible replica where that is likeliest;
        ``None``: too little is known. ``work``: as of :meth:`begin`."""
        if now >= self._due:
            self._look_up(now)
        odds = self._predictions.odds(
            self._calibrated(work), work > 0.0, self.speed.mean_work, due.end - now, due.first_token - now
        )
        return None if odds is None else best_chance(odds, self._eligible, self._rng)

    def by_stated_work(self, attempt: Attempt, own_work: float) -> StatedAttempt:
        """What replaces an attempt that was begun by stated work. ``own_work``: the proxy's own estimate, as
        of :meth:`begin`."""
        return StatedAttempt(attempt, self._calibrated(own_work), self.speed.estimated(own_work))

    def _calibrated(self, work: float) -> float:
        estimated, factors = self.speed.estimated(work), self._factors
        return estimated if factors is None else estimated * factors.get(frexp(estimated)[1], 1.0)

    def reserves_memory(self, now: float) -> bool:
        """Whether requests of this fleet reserve memory on an accelerator."""
        if now >= self._due:
            self._look_up(now)
        return self._search.reserves_memory

    def observe(self, seconds: float) -> None:
        """Record a latency: seconds from the complete request head to the last response byte."""
        counts = self.counters.latency
        bucket = bucket_of(seconds)
        counts[bucket] = counts.get(bucket, 0) + 1

    def begin(
        self,
        work: float,
        now: float,
        excluded: tuple[Replica, ...] = (),
        turn: int = NEW,
        since: float = inf,
        key: tuple[int, ...] = (),
        due: Due | None = None,
        stated: bool = False,
    ) -> Attempt | Rejection:
        """Pick a replica for a request and count it there.

        ``excluded``: replicas that are not picked, because the request was tried there already.

        ``work``: estimated units; 0: no estimate (the fleet's mean is used). Below 0: the absolute value is
        the known part, in tokens, without the response's length (the fleet's mean is added).

        ``since``: when the request was queued, if it was.

        ``key``: the hashes of the request's key, see :attr:`affinity`.

        ``due``: when the request is to be done, if that is known.

        ``stated``: the work is what the client has stated. It is not calibrated, and :meth:`by_stated_work`
        is to replace the attempt.

        ``turn``: :data:`NEW`, :data:`DEQUEUED`, or :data:`ANY_SLOT`. A rejection with
        :attr:`Rejection.max_wait_s` means that the request may be queued:
        :class:`routing.balancing.admission.admission_queue.AdmissionQueue`."""
        if now >= self._due:
            self._look_up(now)
        if self._detour or excluded or due is not None:
            return self._begin_detour(work, now, excluded, turn, since, key, due, stated)
        if work <= 0.0:
            work = self.speed.estimated(work) if work else self.speed.mean_work
        if self.admission.has_waiters and turn == NEW and not self._weighs_waiting:
            return self._behind_others(False, now, None)
        candidates = self._eligible
        size = len(candidates)
        if key and size and self.affinity is not None:
            near = cast("KeyedStrategy", self.strategy)
            return self._slow_path.begin_by_key(near, candidates, Demand(work, since), now, turn, key, False)
        if size > 1:
            pick = self._pick
            replica = pick(candidates, work, now, self._rng)
        elif size:
            replica = candidates[0]
        else:
            return self._slow_path.reject(False, now)
        if replica.limited:
            if replica.memory is None and (
                turn != NEW
                or not self._weighs_waiting
                or replica.load <= replica.in_flight + replica.peer_in_flight
            ):
                # The usual case of SlowPath.begin_at, without the call: a slot that nobody waits for.
                cells = replica.cells
                if cells is None or not cells.siblings:
                    limit = replica.limit
                    has_slot = limit is None or replica.in_flight < limit
                else:
                    has_slot = sibling_load.claim_slot(replica)
                if has_slot:
                    return Attempt(self._outlier_detector, self.speed, replica, work, now)
            return self._slow_path.begin_at(replica, candidates, Demand(work, since), now, turn)
        return Attempt(self._outlier_detector, self.speed, replica, work, now)

    def begin_for_adapters(
        self,
        adapters: Adapters,
        work: float,
        now: float,
        excluded: tuple[Replica, ...] = (),
        turn: int = NEW,
        since: float = inf,
        key: tuple[int, ...] = (),
        due: Due | None = None,
        stated: bool = False,
    ) -> Attempt | Rejection:
        """As :meth:`begin`, for a request that names these adapters of the fleet: its replica has to serve
        them, and had better have them loaded."""
        if now >= self._due:
            self._look_up(now)
        place = self.adapter_replicas.place(adapters)
        if place.homes is not None and turn == NEW and not excluded:
            place.homes.count(self.counters.requests)
        return self._begin_detour(work, now, excluded, turn, since, key, due, stated, place=place)

    def begin_pinned(
        self,
        pinned: PinnedReplica,
        work: float,
        now: float,
        turn: int = NEW,
        since: float = inf,
        stated: bool = False,
    ) -> Attempt | Rejection:
        """Begin a request that only one replica can serve. Rejected with ``replica_gone``: it is no longer in
        the table; ``replica_closed``: it takes nothing new until its admin state or health changes;
        ``replica_unavailable``: not at this moment."""
        if now >= self._due:
            self._look_up(now)
        return self._begin_detour(work, now, (), turn, since, (), None, stated, pinned)

    def _begin_detour(
        self,
        given_work: float,
        now: float,
        excluded: tuple[Replica, ...],
        turn: int,
        since: float,
        key: tuple[int, ...],
        due: Due | None,
        stated: bool,
        pinned: PinnedReplica | None = None,
        place: AdapterPlacement | None = None,
    ) -> Attempt | Rejection:
        """Begin where a request may need more than the usual path, with a calibrated estimate of the work.
        ``given_work``: as of :meth:`begin`."""
        factors = self._factors
        work = uncalibrated_work = self.speed.estimated(given_work)
        if factors is not None and not stated:
            work *= factors.get(frexp(work)[1], 1.0)
        if turn == NEW and not self._weighs_waiting:
            admission = self.admission
            if admission.anybody_waits if place is not None and place.limited else admission.has_waiters:
                if pinned is not None:
                    return self._slow_path.busy()
                return self._behind_others(bool(excluded), now, place)
        odds = None
        if pinned is not None:
            found = self._slow_path.begin_pinned(pinned, Demand(work, since), now, turn)
        else:
            until = inf
            if due is not None:
                until = due.end
                odds = self._predictions.odds(
                    work, given_work > 0.0, self.speed.mean_work, until - now, due.first_token - now
                )
            found = self._slow_path.begin(
                self._pick, work, now, excluded, turn, since, key, until, odds, place
            )
        if factors is not None and isinstance(found, Attempt):
            found.uncalibrated_work = uncalibrated_work
        if now >= self._predictions.due and isinstance(found, Attempt):
            return self._sampled(found, given_work > 0.0, now, odds)
        return found

    def _behind_others(self, retried: bool, now: float, place: AdapterPlacement | None) -> Rejection:
        """Of a newcomer that lines up: others wait for a slot, or for the first replica that is ready."""
        return self._slow_path.busy() if self._eligible else self._slow_path.reject(retried, now, place)

    def _sampled(self, attempt: Attempt, told: bool, now: float, odds: Odds | None) -> PredictedAttempt:
        """Predict how long this request will take, and learn from it. ``told``: it tells its length."""
        speed = self.speed
        sample = speed.predictions.sample(attempt.replica, attempt.work, told, speed.mean_work, now, odds)
        self._detour = self._needs_detour
        return PredictedAttempt(attempt, sample)

    # --- responses that were looked at -----------------------------------------------------------

    def lacks_result(self, replica: Replica, now: float) -> bool:
        """A response with 200 is no answer of its protocol. Whether it is to be settled as
        ``WITHOUT_RESULT``; else as a success, for its fleet answers so."""
        return self._outlier_detector.lacks_result(replica, now)

    def has_result(self, attempt: Attempt, has_content: bool, now: float) -> None:
        """A response was looked at as a whole, and is an answer. ``has_content``: it is not empty. Called
        before the attempt is settled."""
        self._outlier_detector.has_result(attempt, has_content, now)

    def is_suspect(self, replica: Replica) -> bool:
        """Whether a response without a result is better asked for elsewhere than handed on."""
        return self._outlier_detector.is_suspect(replica)

    # --- connect checks --------------------------------------------------------------------------

    def unreachable(
        self, replica: Replica, words: str, now: float, cause: int = UNREACHABLE, again_s: float = 3.0
    ) -> None:
        """A connect check has failed: eject the replica if that is allowed. ``words``: why. ``again_s``: by
        then the next check has ended; no request is spent on the replica before."""
        if not replica.leaving:
            self._outlier_detector.unreachable(replica, words, cause, now, again_s)

    def reachable(self, replica: Replica, now: float) -> None:
        """A connect check has made a connection."""
        self._outlier_detector.reachable(replica, now)

    # --- the slow timer --------------------------------------------------------------------------

    def _look_up(self, now: float) -> None:
        self._due = self._timer.look_up(now)
        if now >= self._predictions.due:
            self._detour = True

    def refresh(self, now: float) -> None:
        """Bring everything that depends on time up to date, at once. begin() does so; reports do as well."""
        self._timer.refresh(now)
        self._due = self._timer.due

    def refresh_some(self, now: float) -> bool:
        """The same, in slices if the pool is refreshed in slices. Returns whether there are more."""
        more = self._timer.refresh_some(now)
        self._due = self._timer.due
        return more

    def _refreshed(self) -> None:
        # Calibration is off where memory is reserved: for what a client may use, not for what others used.
        self._search.reserves_memory = reserves = self._cycle.reserves
        self._factors = None if reserves else self.speed.calibration.factors

    def _changed(self, now: float) -> None:
        self._timer.changed(now)
        self._due = min(self._due, self._timer.due)

    def _sort(self, now: float) -> float:
        self.admission.free_slots.forget()
        found = eligibility.partition(self.replicas, now, self._outlier_detector.census.site)
        self._set_eligibility(found)
        return found.next_end

    def _set_eligibility(self, found: eligibility.Eligibility) -> None:
        """Pick among these replicas from now on."""
        slow, sites = self._slow_path, self._all_sites
        rested = len(found.resting) < len(slow.eligibility.resting)
        slow.eligibility = found
        slow.fair_shares.follow(found.eligible)
        slow.sites = sites if sites is not None and sites.divide(found) else None
        self._eligible = self._search.eligible = found.eligible
        self._detour = self._needs_detour = (
            self._factors is not None
            or bool(found.probation)
            or bool(found.starved)
            or self._outlier_detector.monitoring
            or slow.fair_shares.hold
            or slow.sites is not None
        )
        if found.probation or found.starved or slow.fair_shares.hold or rested:
            # They may take a request that waits, though no slot has become free.
            self.admission.wake_next()

    # --- reports ---------------------------------------------------------------------------------

    def explain(self, now: float) -> list[ReplicaExplanation]:
        """For each replica: whether it is eligible and gets requests, and why not, in plain words."""
        self.refresh(now)
        return list(self.explained(now))

    def explained(self, now: float) -> Iterator[ReplicaExplanation]:
        """The same as of the last refresh, one after the other."""
        slow = self._slow_path
        return explanations(self.replicas, slow.eligibility, now, self.speed.mean_work, slow.sites)

    @property
    def reported(self) -> list[Replica]:
        """The replicas that :meth:`report` is about: also those that have left and are still in use."""
        return [*self.replicas, *self._endpoints.leaving]

    def _count_sites(self) -> None:
        if self._all_sites is not None:
            stayed, spilled = self._all_sites.went()
            self.counters.stayed += stayed
            self.counters.spilled += spilled

    def report(
        self, now: float, refused: str = "", replicas: list[ReplicaCounters] | None = None
    ) -> FleetCounters:
        """All counters since the worker started. Not a copy: encode it before the next request.
        ``replicas``: the replicas' part, if it was made before."""
        self.admission.report(now)
        self._count_sites()
        self.counters.applied = str(self.version)
        self.counters.refused = refused
        self.counters.first_token_limit_s = self.seconds.usual_limit_s
        self.counters.ended = self.totals.report()
        fill_fleet_counters(self.counters, self.speed, self.strategy, self._factors is not None, now)
        if replicas is None:
            replicas = [replica_counters(replica, self.speed, now) for replica in self.reported]
        self.counters.replicas = replicas
        return self.counters

    def __repr__(self) -> str:
        return f"<Pool {self.name} {self.version} {len(self._eligible)} of {len(self.replicas)} eligible>"
