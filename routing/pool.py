"""A fleet in one worker: who is eligible, who gets the next request, and what became of it.

:meth:`Pool.begin` picks and counts in one step, so that in-flight is counted by whoever sends, first.
It returns an :class:`Attempt`, whose holder owes exactly one :meth:`Attempt.settle` on every way out.

Eligibility is sorted out when something changed and on a slow timer that begin() itself looks at;
between those a pick costs one comparison and the strategy's loop. All times are monotonic seconds.
"""

from collections.abc import Iterable
from random import Random

from routing import strategies
from routing.contract.policy import Policy
from routing.contract.sketch import bucket_of
from routing.contract.table import FleetSnapshot, ReplicaSpec, Version
from routing.contract.telemetry import FleetCounters
from routing.outcome import FAILURES, Outcome
from routing.policies import ejection, eligibility, host_view, learned_speed, slow_start
from routing.policies.fleet_speed import FleetSpeed
from routing.policies.retry_budget import RetryBudget
from routing.pool_report import Explanation, explanation, replica_counters
from routing.replica import Replica
from routing.shared_counts import CapacityExhausted, SharedCounts

REFRESH_S = 0.1
LARGE_POOL = 64
SAMPLE = 16
LEARN_STREAM_EVERY_S = 0.25
RETRY_AFTER_S = 1.0


class Refusal:
    """Nobody could be picked: what to answer the client instead."""

    __slots__ = ("code", "message", "retry_after_s", "status")

    def __init__(self, code: str, message: str, retry_after_s: float | None) -> None:
        self.status = 503
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s

    def __repr__(self) -> str:
        return f"<Refusal {self.status} {self.code}: {self.message}>"


class Attempt:
    """One request on its way at one replica. Whoever holds it owes exactly one settle()."""

    __slots__ = (
        "_learned_at",
        "_learned_tokens",
        "_open",
        "_tokens",
        "pool",
        "probe",
        "queued",
        "replica",
        "started",
        "work",
    )

    def __init__(self, pool: "Pool", replica: Replica, work: float, started: float, queued: float) -> None:
        self.pool = pool
        self.replica = replica
        self.work = work
        self.started = started
        self.queued = queued
        """Work it waits for at a replica without a free slot."""
        self.probe = False
        """Whether it is the one request that decides about a replica on probation."""
        self._open = True
        self._tokens = 0
        self._learned_tokens = 0
        self._learned_at = started

    def first_byte(self, now: float) -> None:
        """The first response byte came."""
        replica = self.replica
        replica.heard_at = now
        counts = replica.first_byte
        bucket = bucket_of(now - self.started)
        counts[bucket] = counts.get(bucket, 0) + 1

    def heard(self, now: float, tokens: int = 0) -> None:
        """Any response bytes came; ``tokens``: output tokens in them, where the caller can tell."""
        self.replica.heard_at = now
        if tokens:
            self._tokens += tokens
            if now - self._learned_at >= LEARN_STREAM_EVERY_S:
                self._learn_passing(now)

    def settle(self, outcome: Outcome, now: float, output_tokens: int = 0) -> None:
        """End it: uncount, learn, judge. ``output_tokens``: of the whole answer, 0 when not known.

        Raises RuntimeError when it was settled before.
        """
        if not self._open:
            raise RuntimeError(f"an attempt at {self.replica.name} was settled twice")
        self._open = False
        pool, replica, work = self.pool, self.replica, self.work
        replica.in_flight = in_flight = replica.in_flight - 1
        if in_flight:
            replica.work -= work
            replica.load -= 1
            replica.load_work -= work
        else:
            # Set, not subtracted: sums of floats must come back to nothing exactly.
            replica.work = 0.0
            replica.load = replica.peer_in_flight
            replica.load_work = replica.peer_work
        view = replica.cell_view
        if view is not None:
            at = replica.cell_at
            view[at] = in_flight
            view[at + 1] = replica.work
        if outcome is Outcome.SUCCESS:
            seconds = now - self.started
            replica.succeeded += 1
            replica.heard_at = now
            bucket = bucket_of(seconds)
            counts = replica.latency
            counts[bucket] = counts.get(bucket, 0) + 1
            tokens = output_tokens or self._tokens
            if tokens:
                replica.output_tokens += tokens
                self._learn_rest(now, tokens)
            else:
                pool.speed.answered(replica, seconds, work, self.queued, now)
            state = replica.ejection
            if state.failures or state.until:
                pool._answered(self, now)
        else:
            replica.output_tokens += output_tokens or self._tokens
            pool._not_answered(self, outcome, now)
        if replica.leaving and not in_flight:
            pool._forget(replica)

    def _learn_passing(self, now: float) -> None:
        """Learn from a stream as it passes, once a scale of tokens is known."""
        speed = self.pool.speed
        if speed.tokens_per_work:
            units = (self._tokens - self._learned_tokens) / speed.tokens_per_work
            speed.learn(self.replica, now - self._learned_at, units, now)
            self._learned_tokens = self._tokens
            self._learned_at = now

    def _learn_rest(self, now: float, tokens: int) -> None:
        """Learn what has not been learned while the stream passed."""
        speed, work = self.pool.speed, self.work
        scale = speed.scale(tokens, work)
        speed.seen(now - self.started, work)
        units = max(0, tokens - self._learned_tokens) / scale
        if not self._learned_tokens:
            units += self.queued
        speed.learn(self.replica, now - self._learned_at, units, now)

    def __repr__(self) -> str:
        return f"<Attempt at {self.replica.name} work={self.work:g} {'open' if self._open else 'settled'}>"


class Pool:
    """One fleet's replicas, strategy and policies. Lives over table swaps; see :meth:`replace`."""

    def __init__(
        self, snapshot: FleetSnapshot, shared: SharedCounts | None = None, rng: Random | None = None
    ) -> None:
        """Raises ValueError in words when the snapshot cannot be routed from."""
        self._shared = shared
        self._rng = rng or Random()
        self._random = self._rng.random
        self._sees_peers = shared is not None and shared.workers > 1
        self.replicas: list[Replica] = []
        self._leaving: list[Replica] = []
        self._closed = False

        self.counters = FleetCounters(name=snapshot.name)
        """The proxy counts here; see :meth:`report` for the rest."""
        self._observed: dict[int, int] = self.counters.latency
        self.speed = FleetSpeed()
        self.budget = RetryBudget(snapshot.policy.retries.budget_percent)

        self._sorted = eligibility.Eligibility()
        self._eligible: list[Replica] = []
        self._due = 0.0
        """When begin() has to look up: the slow timer or, with other workers, their counts."""
        self._refresh_due = 0.0
        self._take(snapshot)

    # --- the table -------------------------------------------------------------------------------

    def replace(self, snapshot: FleetSnapshot) -> None:
        """Route from a newer snapshot; replicas whose uid and URL match keep their live state.

        Raises ValueError in words, and changes nothing, when the snapshot cannot be routed from.
        """
        self._take(snapshot)

    def _take(self, snapshot: FleetSnapshot) -> None:
        strategy = strategies.build(snapshot.policy.strategy, snapshot.policy.parameters)
        check_limits(snapshot)
        known = {(r.uid, r.spec.url): r for r in (*self._leaving, *self.replicas)}
        kept = [(known.get((spec.uid, spec.url)) or Replica(spec), spec) for spec in snapshot.replicas]

        first = not hasattr(self, "snapshot")
        self.snapshot = snapshot
        self.name = snapshot.name
        self.protocol: str = snapshot.protocol
        self.served_model = snapshot.served_model
        self.policy: Policy = snapshot.policy
        self.version = Version(snapshot.epoch, snapshot.version)
        self.strategy = strategy
        self._pick = strategy.pick
        self.budget.share = snapshot.policy.retries.budget_percent / 100

        for replica, spec in kept:
            self._adopt(replica, spec, first)
        now_listed = [replica for replica, _ in kept]
        for replica in self.replicas:
            if replica not in now_listed:
                self._part(replica)
        self.replicas = now_listed
        self._leaving = [replica for replica in self._leaving if replica.leaving]
        self._due = self._refresh_due = 0.0
        self._sorted = eligibility.Eligibility()
        self._eligible = []

    def _adopt(self, replica: Replica, spec: ReplicaSpec, first: bool) -> None:
        """Give a replica its newer spec; ramp it when it has just become ready."""
        old = replica.spec
        is_new = replica.leaving or (replica.cells is None and replica not in self.replicas)
        came_up = spec.health == "ready" and old.health != "ready"
        came_back = old.admin_state == "maintenance" and spec.admin_state == "active"
        if (is_new and not first) or came_up or came_back:
            replica.ramp_pending = True
        if spec.weight != old.weight:
            learned_speed.rescale(replica.speed, old.weight, spec.weight)
        replica.adopt(spec)
        replica.leaving = False
        if self._shared is not None and replica.cells is None:
            self._claim_cells(replica, self._shared)

    def _claim_cells(self, replica: Replica, shared: SharedCounts) -> None:
        try:
            cells = shared.claim(f"{replica.uid} {replica.spec.url}")
        except CapacityExhausted:
            # Counted by each worker for itself then: worse picks, no lost request.
            return
        replica.cells, replica.cell_view, replica.cell_at = cells, cells.view, cells.own

    def _part(self, replica: Replica) -> None:
        """No longer listed: gone when its last request has ended."""
        replica.leaving = True
        self._leaving.append(replica)
        if not replica.in_flight:
            self._forget(replica)

    def _forget(self, replica: Replica) -> None:
        if replica in self._leaving:
            self._leaving.remove(replica)
        if self._shared is not None and replica.cells is not None:
            self._shared.release(replica.cells)
            replica.cells = replica.cell_view = None

    def close(self) -> None:
        """The fleet is gone: begin() refuses, shared counts are given back as requests end."""
        self._closed = True
        self._eligible = []
        for replica in self.replicas:
            self._part(replica)
        self.replicas = []

    # --- the request path ------------------------------------------------------------------------

    def request_seen(self) -> None:
        """A client's request for this fleet has come."""
        self.counters.requests += 1
        self.budget.requests += 1

    def retry_allowed(self) -> bool:
        """Take one retry out of the budget; the proxy counts it when it sends it."""
        return self.budget.take()

    def observe(self, seconds: float) -> None:
        """A client has its answer: seconds from complete request head to last response byte."""
        counts = self._observed
        bucket = bucket_of(seconds)
        counts[bucket] = counts.get(bucket, 0) + 1

    def begin(self, work: float, now: float, tried: tuple[Replica, ...] = ()) -> Attempt | Refusal:
        """Pick a replica for a request and count it there; ``tried``: those it has been at already.

        ``work``: estimated units, 0 or less when there is no estimate (the fleet's mean is used).
        """
        if now >= self._due:
            self._look_up(now)
        if work <= 0.0:
            work = self.speed.mean_work
        if self._sorted.probation and not tried:
            attempt = self._probe(work, now)
            if attempt is not None:
                return attempt
        candidates = self._eligible
        if tried:
            candidates = [replica for replica in candidates if replica not in tried]
        count = len(candidates)
        if count > 1:
            if count > LARGE_POOL:
                draw = self._random
                candidates = [candidates[int(draw() * count)] for _ in range(SAMPLE)]
            return self._start(self._pick(candidates, work, now, self._rng), work, now)
        if count:
            return self._start(candidates[0], work, now)
        return self._refuse(now, tried)

    def _start(self, replica: Replica, work: float, now: float) -> Attempt:
        """Count first, then send."""
        load = replica.load
        slots = replica.concurrency
        queued = 0.0
        if slots is not None and load >= slots:
            queued = replica.load_work * (load + 1 - slots) / (slots * load)
        in_flight = replica.in_flight
        if not in_flight:
            replica.heard_at = now
        replica.in_flight = in_flight = in_flight + 1
        replica.load = load + 1
        replica.work += work
        replica.load_work += work
        replica.picked += 1
        view = replica.cell_view
        if view is not None:
            at = replica.cell_at
            view[at] = in_flight
            view[at + 1] = replica.work
        return Attempt(self, replica, work, now, queued)

    def _probe(self, work: float, now: float) -> Attempt | None:
        """Send this request to a replica on probation, if no other request is deciding about it."""
        for replica in self._sorted.probation:
            state = replica.ejection
            if not state.probing and now >= state.until > 0 and host_view.claim_probe(replica, now):
                state.probing = True
                attempt = self._start(replica, work, now)
                attempt.probe = True
                return attempt
        return None

    def _refuse(self, now: float, tried: tuple[Replica, ...]) -> Refusal:
        self._due = self._refresh_due = 0.0
        if self._closed:
            return Refusal("fleet_removed", f"fleet {self.name} has been removed", None)
        if tried and self._eligible:
            return Refusal("no_other_replica", f"every eligible replica of fleet {self.name} was tried", None)
        message = eligibility.summary(self.name, self.replicas)
        return Refusal("no_replica", message, RETRY_AFTER_S if self.replicas else None)

    # --- the slow timer --------------------------------------------------------------------------

    def _look_up(self, now: float) -> None:
        if now >= self._refresh_due:
            self.refresh(now)
        elif self._sees_peers:
            host_view.read_counts(self._eligible)
        self._due = self._refresh_due
        if self._sees_peers:
            self._due = min(self._due, now + host_view.COUNTS_EVERY_S)

    def refresh(self, now: float) -> None:
        """Bring everything that depends on time up to date. begin() does so; reports may as well."""
        self._refresh_due = self._due = now + REFRESH_S
        if self._closed:
            return
        self.budget.rotate(now)
        if self._sees_peers:
            host_view.read_counts(self.replicas)
            for replica in self.replicas:
                host_view.exchange_speed(replica, now, self.speed.tau)
                host_view.follow_ejections(replica, now)
        for replica in self.replicas:
            self._ramp(replica, now)
            self._check_stall(replica, now)
        self.speed.refresh(self.replicas, now)
        self._sort(now)

    def _ramp(self, replica: Replica, now: float) -> None:
        spec = replica.spec
        if replica.ramp_pending:
            replica.ramp_pending = False
            replica.ramp_started = now
        share = 1.0
        if replica.ramp_started is not None:
            share = slow_start.ramp(now - replica.ramp_started, self.policy.slow_start_s)
            if share >= 1.0:
                replica.ramp_started = None
        replica.ramp = share
        replica.share = spec.weight * share
        limit = spec.max_concurrency if spec.max_concurrency is not None else self.policy.max_concurrency
        replica.concurrency = slow_start.slots(limit, share)

    def _check_stall(self, replica: Replica, now: float) -> None:
        state, stall_s = replica.ejection, self.policy.timeouts.stall_s
        if state.until:
            if state.stalled and replica.heard_at > state.claimed_at:
                self._lift(replica, now)
        elif ejection.stalled(replica.in_flight, replica.heard_at, now, stall_s, self.speed.p99_s):
            silent = now - replica.heard_at
            words = f"stalled: nothing heard for {silent:.0f} s with {replica.in_flight} requests in flight"
            self._eject(replica, now, words, stalled=True)

    def _sort(self, now: float) -> None:
        self._sorted = found = eligibility.sort_out(self.replicas, now)
        self._eligible = found.eligible
        ends = [r.ejection.until for r in self.replicas if r.ejection.until > now]
        if ends:
            self._refresh_due = min(self._refresh_due, *ends)
            self._due = min(self._due, self._refresh_due)

    # --- verdicts --------------------------------------------------------------------------------

    def _answered(self, attempt: Attempt, now: float) -> None:
        """A replica that had failures or is ejected has answered."""
        replica = attempt.replica
        state = replica.ejection
        state.failures = 0
        if state.until and (attempt.probe or attempt.started >= state.claimed_at or state.stalled):
            self._lift(replica, now)
            self._sort(now)

    def _not_answered(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        replica = attempt.replica
        if outcome in FAILURES:
            replica.failed += 1
            self.speed.failed(replica, now - attempt.started, now)
            self._count_failure(attempt, outcome, now)
            return
        if outcome is Outcome.CANCELLED:
            replica.cancelled += 1
            if attempt.probe:
                replica.ejection.probing = False
                host_view.release_probe(replica)
            return
        replica.heard_at = now
        if outcome is Outcome.REJECTED:
            replica.rejected += 1
            self.speed.rejected(replica, now - attempt.started, now)
        else:
            replica.client_errors += 1
        if attempt.probe:
            # It lives and answers, and neither load nor the client's own error would have ejected it.
            self._lift(replica, now)
            self._sort(now)

    def _count_failure(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        replica, policy = attempt.replica, self.policy.ejection
        state = replica.ejection
        if attempt.probe:
            self._eject(replica, now, f"its probe request {_WORDS[outcome]}", again=True)
        elif ejection.failed(state, policy.consecutive_failures) and not state.until:
            words = f"{state.failures} failures in a row, the last one {_WORDS[outcome]}"
            self._eject(replica, now, words)

    def _eject(
        self, replica: Replica, now: float, words: str, again: bool = False, stalled: bool = False
    ) -> None:
        """Take a replica out, if the host's limit allows it (``again``: it is out already)."""
        policy, state = self.policy.ejection, replica.ejection
        if replica.leaving or self._closed:
            return
        limit = ejection.allowed(eligibility.available(self.replicas), policy.max_ejected_percent)
        if not again and self._ejected_on_host(now) >= limit:
            return
        ejection.eject(state, now, policy.base_s, self._rng, words)
        state.stalled = stalled
        host_view.show_ejection(replica)
        if not again and self._sees_peers and self._ejected_on_host(now) > limit:
            ejection.undo(state)
            host_view.show_ejection(replica)
        self._sort(now)

    def _ejected_on_host(self, now: float) -> int:
        if self._sees_peers:
            for replica in self.replicas:
                host_view.follow_ejections(replica, now)
        return sum(1 for replica in self.replicas if replica.ejection.until)

    def _lift(self, replica: Replica, now: float) -> None:
        ejection.lift(replica.ejection, now)
        learned_speed.forget(replica.speed)
        host_view.show_ejection(replica)

    # --- telling ---------------------------------------------------------------------------------

    def explain(self, now: float) -> list[Explanation]:
        """For each replica: eligible, or why not, in plain words."""
        self.refresh(now)
        found = self._sorted
        return [explanation(replica, found.panic, found.last_resort, now) for replica in self.replicas]

    def report(self, now: float, refused: str = "") -> FleetCounters:
        """Everything counted since the worker started, for telemetry."""
        self.counters.applied = str(self.version)
        self.counters.refused = refused
        self.counters.replicas = [replica_counters(r, now) for r in (*self.replicas, *self._leaving)]
        return self.counters

    def __repr__(self) -> str:
        return f"<Pool {self.name} {self.version} {len(self._eligible)} of {len(self.replicas)} eligible>"


_WORDS = {
    Outcome.FAILED: "answered with a server error",
    Outcome.REFUSED: "found no connection",
    Outcome.LOST: "lost its connection",
    Outcome.TIMEOUT: "timed out",
}


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


def _limits(snapshot: FleetSnapshot) -> Iterable[tuple[str, int | None]]:
    yield f"fleet {snapshot.name}", snapshot.policy.max_concurrency
    for spec in snapshot.replicas:
        yield f"replica {spec.name}", spec.max_concurrency
