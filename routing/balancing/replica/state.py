"""One replica's live state in one worker: in flight, outstanding work, learned speed, ejection.

The objects here only hold state, grouped by who changes it: :mod:`routing.balancing.attempt` (counting),
:mod:`routing.balancing.replica.sibling_load` (what others have there), :mod:`routing.balancing.learning`
(speed, latency), :mod:`routing.balancing.outlier` (ejection, slow start) and, for
:attr:`Replica.wrr_credit`, round robin. What each pick or settlement reads is flat in :class:`Replica`.
All times are ``time.monotonic()`` seconds.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

from routing.balancing.replica.client_source import FailureRun
from routing.balancing.replica.device_memory import ReplicaMemory
from routing.balancing.replica.prefix_cache_index import EMPTY_INDEX
from routing.contract.addresses import parse_base_url
from routing.contract.load_report import ReportedLoad
from routing.contract.table import ReplicaSpec, Tls
from routing.shared.shm_counters import CounterCells


class LearnedSpeed:
    """Evidence of how many seconds a unit of work takes: two sums that decay with age.

    Because both are plain sums, the evidence of several workers adds up without error.
    """

    __slots__ = ("at", "peer_seconds", "peer_units", "prior_seconds", "prior_units", "seconds", "units")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.units = 0.0
        self.at = 0.0
        """When the two sums were last decayed."""
        self.peer_seconds = 0.0
        self.peer_units = 0.0
        """Evidence of this host's other workers, as last read."""
        self.prior_seconds = 1.0
        self.prior_units = 1.0
        """What is taken for granted besides own evidence: the pool's median by weight, and the peers'."""

    def __repr__(self) -> str:
        return f"<LearnedSpeed {self.seconds:.4g} s / {self.units:.4g} units, at {self.at:.3f}>"


class SuccessRateWindows:
    """Readings of a replica's counters in all workers, where the last two windows begin and lately."""

    __slots__ = (
        "all_failed",
        "all_succeeded",
        "began",
        "by_client",
        "earlier_by_client",
        "earlier_failed",
        "earlier_succeeded",
        "failed",
        "succeeded",
    )

    def __init__(self) -> None:
        self.began = 0.0
        self.succeeded = self.earlier_succeeded = 0
        self.failed = self.earlier_failed = 0
        self.all_succeeded = self.all_failed = 0
        """Lately: this worker's and what its peers have shown."""
        self.by_client: dict[int, int] = {}
        """Failures of the present window by client, of a few clients."""
        self.earlier_by_client: dict[int, int] = {}


class EjectionState:
    """What live traffic has shown against a replica."""

    __slots__ = (
        "adopted",
        "claimed_at",
        "consecutive_ejections",
        "count",
        "failure_run",
        "failures",
        "lasted_s",
        "probing",
        "reason",
        "returned_after",
        "returned_at",
        "soft_until",
        "stalled",
        "until",
        "windows",
    )

    def __init__(self) -> None:
        self.failures = 0
        """Failures since the last answer that was none."""
        self.failure_run = FailureRun()
        """By whom those are."""
        self.until = 0.0
        """End of the ejection, then probation until one probe request passes; 0: not ejected."""
        self.claimed_at = 0.0
        """When this ejection began; workers that eject at once are ordered by it."""
        self.adopted = False
        """Whether another worker's ejection is followed rather than an own one."""
        self.lasted_s = 0.0
        self.consecutive_ejections = 0
        self.returned_at = 0.0
        self.returned_after = 0
        """Answers that this worker had had from it by then."""
        self.probing = False
        """Whether this worker has the one probe request in flight."""
        self.stalled = False
        """Ejected for silence: any byte from it lets it back."""
        self.reason = ""
        self.count = 0
        """Ejections since the worker started."""
        self.soft_until = 0.0
        """Until when it gets next to nothing (:mod:`routing.balancing.outlier.soft_ejection`); 0: it is as
        any other."""
        self.windows = SuccessRateWindows()

    def __repr__(self) -> str:
        state = f"until {self.until:.3f}: {self.reason}" if self.until else f"{self.failures} failures"
        return f"<EjectionState {state}>"


class LoadReportHistory:
    """What a replica has said of its own load, and what that was compared with."""

    __slots__ = (
        "at",
        "load",
        "mean_sum",
        "mean_weight",
        "noise_sum",
        "own",
        "read_at",
        "unread",
    )

    def __init__(self) -> None:
        self.load: ReportedLoad | None = None
        """The newest report."""
        self.at = -inf
        """When it was given."""
        self.unread = False
        """Whether it has figures that have not been looked at."""
        self.own: deque[tuple[float, int]] = deque()
        """What this host had in flight there at the last moments at which that was looked at."""
        self.read_at = 0.0
        """When the last report was given that was compared with own requests; 0: none was."""
        self.mean_sum = self.noise_sum = 0.0
        self.mean_weight = 0.0
        """Of the readings: their sum, that of their variances and their number, decayed by age."""

    @property
    def mean(self) -> float:
        """What others have there; below 0: it counts less than is known of. Only after a reading."""
        return self.mean_sum / self.mean_weight

    def __repr__(self) -> str:
        return f"<Reported {self.load} at {self.at:.3f}>"


class LatencyTail:
    """How the answers of the last two windows were spread: buckets of seconds per unit of work."""

    __slots__ = ("began", "newer", "older")

    def __init__(self) -> None:
        self.began = 0.0
        """Beginning of the newer window."""
        self.newer: dict[int, int] = {}
        self.older: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<AnswerTail {sum(self.newer.values())} and {sum(self.older.values())} answers>"


class LatencyMemory:
    """What is kept of the times of answers."""

    __slots__ = ("evidence", "peak_at", "peak_s", "tail")

    def __init__(self) -> None:
        self.evidence = LearnedSpeed()
        """Of answer times, whatever their work; its units are answers."""
        self.peak_s = 0.0
        self.peak_at = 0.0
        """Last answer that the peak was learned from; 0: none."""
        self.tail = LatencyTail()


class SlowStartState:
    """How far a replica is in its slow start, and what it has had in it."""

    __slots__ = ("over_share", "pending", "picked_before", "started")

    def __init__(self) -> None:
        self.pending = False
        """Whether one is to begin."""
        self.started: float | None = None
        """When it began; ``None``: the replica is in none."""
        self.over_share = 0.0
        """How many requests it has had beyond its part."""
        self.picked_before = 0
        """How many it had had when that was looked at last."""


LOAD_LEVELS = 12


class SpeedByLoad:
    """Evidence of how many seconds a unit of work takes, apart by how many requests were there: 0, 1, 2–3,
    4–7 and so on, the last level everything from 1024 on."""

    __slots__ = ("at", "reading", "seconds", "units")

    def __init__(self) -> None:
        self.seconds = [0.0] * LOAD_LEVELS
        self.units = [0.0] * LOAD_LEVELS
        """Both decayed."""
        self.at = 0.0
        """When they were last decayed."""
        self.reading = [1.0] * LOAD_LEVELS
        """Seconds per unit of work to be expected at each level, longer in slow start."""

    def __repr__(self) -> str:
        return f"<SpeedByLoad {', '.join(f'{seconds:.4g}' for seconds in self.reading)}>"


class UpstreamHooks(Protocol):
    """What the http half keeps of a replica."""

    def verify_by(self, tls: Tls) -> None:
        """No connection that was verified otherwise is to be used again."""

    def ask_load(self, asks: bool) -> None:
        """Whether requests ask the replica for its load."""


class Replica:
    """One replica as one worker sees it. Kept over table swaps while uid and URL stay the same."""

    __slots__ = (
        "answer_s",
        "asks_load",
        "authority",
        "cancelled",
        "cell_at",
        "cell_view",
        "cells",
        "checking_since",
        "client_errors",
        "concurrency",
        "cost",
        "draw_seed",
        "ejection",
        "endpoint",
        "external_load",
        "external_load_work",
        "failed",
        "failure_ends",
        "failure_load",
        "favour",
        "first_byte",
        "host",
        "host_field",
        "in_flight",
        "last_heard_at",
        "latency",
        "latency_memory",
        "leaving",
        "limit",
        "limited",
        "load",
        "load_work",
        "memory",
        "name",
        "no_credential",
        "not_verified",
        "output_tokens",
        "path_prefix",
        "peer_in_flight",
        "peer_load",
        "peer_load_work",
        "picked",
        "port",
        "prefixes",
        "queued",
        "queued_work",
        "ramp",
        "rejected",
        "reported",
        "reports_refused",
        "seconds_per_work",
        "share",
        "slot_freed",
        "slow_start",
        "spec",
        "speed",
        "speed_by_load",
        "stall_exempt",
        "succeeded",
        "tls",
        "uid",
        "work",
        "wrr_credit",
    )

    def __init__(self, spec: ReplicaSpec) -> None:
        """Raises ValueError in words when ``spec.url`` is not a base URL a replica can have."""
        # Who it is. `adopt` replaces the spec when a new table changes weight, states or limits.
        self.uid = spec.uid
        base = parse_base_url(spec.url)
        self.host = base.host
        self.port = base.port
        self.authority = base.authority.encode("ascii")
        """``host:port``."""
        self.host_field = base.host_field.encode("ascii")
        """What the Host header carries."""
        self.tls = Tls() if base.scheme == "https" else None
        """How it is verified; ``None``: it is spoken to in plain HTTP."""
        self.path_prefix = base.path_prefix.encode("ascii")
        """``b""`` or ``b"/base"``."""
        self.endpoint: UpstreamHooks | None = None
        """The http half's connections to this replica, made with the first request to it."""
        self.asks_load = False
        """Whether requests ask it for its load."""
        self.memory: ReplicaMemory | None = None
        """``None``: requests reserve nothing here."""
        self.no_credential = ""
        """Why the token that it wants cannot be had here; empty: it can, or it wants none."""
        self.not_verified = ""
        """Why the last connection that did not come about was not verified; empty: for another reason."""

        # What this worker has in flight here, what waits in it for a place here, what other workers of the
        # host have, and the sum of all.
        self.in_flight = 0
        self.work = 0.0
        self.queued = 0
        self.queued_work = 0.0
        self.reported: LoadReportHistory | None = None
        """What it has said of its own load; ``None``: nothing."""
        self.external_load = 0
        self.external_load_work = 0.0
        """What others than this host's workers have there, as it reports; counted with the peers' below."""
        self.peer_in_flight = 0
        self.peer_load = 0
        self.peer_load_work = 0.0
        """Both with what waits there for a place here, and the first with :attr:`failure_load`."""
        self.failure_load = 0
        """Failures that still count as requests in flight (:mod:`routing.balancing.outlier.failure_load`)."""
        self.failure_ends: deque[tuple[float, int]] = deque()
        """Until when, and how many."""
        self.load = 0
        self.load_work = 0.0
        self.cells: CounterCells | None = None
        self.cell_view: memoryview[float] | None = None
        self.cell_at = 0

        # What was learned.
        self.speed = LearnedSpeed()
        self.seconds_per_work = 1.0
        self.latency_memory = LatencyMemory()
        """Kept while a strategy asks for it."""
        self.speed_by_load = SpeedByLoad()
        """Kept while a strategy asks for it."""
        self.last_heard_at = 0.0
        """Last byte from the replica, or the moment from which on its silence is judged."""
        self.stall_exempt = 0
        """Of those in flight in this worker: tunnels, which may be silent, requests whose clients wait so
        short a time that silence on them says nothing, and those that their clients are still sending."""
        self.ejection = EjectionState()

        # What strategies read.
        self.ramp = 1.0
        """Slow start: 0.1 to 1.0."""
        self.slow_start = SlowStartState()
        self.cost = 1.0
        """``seconds_per_work / ramp``."""
        self.answer_s = 1.0
        """Seconds an answer takes, for strategies that go by it
        (:mod:`routing.balancing.learning.latency_ewma`)."""
        self.favour = 1.0
        """By what factor its slowest answers raise or lower its weight, for strategies that go by those
        (:mod:`routing.balancing.learning.tail_weight`)."""
        self.share = 1.0
        """``weight · ramp``."""
        self.concurrency: int | None = None
        """Requests of this proxy it works on at once, scaled by slow start; ``None``: a batching server."""
        self.limit: int | None = None
        """Requests of this proxy it is given at one time; ``None``: as many as come."""
        self.limited = False
        """Whether a request needs a place here, and not only to be sent."""
        self.slot_freed: Callable[[Replica], None] | None = None
        """Called with it when a request has ended that had a place here."""
        self.checking_since: float | None = None
        """Since when this worker knows that no probe has passed yet; ``None``: one has."""
        self.draw_seed = 0
        """Its number in draws by a prompt, the same in all workers and on all hosts; 0: none yet."""
        self.prefixes = EMPTY_INDEX
        """What it was sent lately. Kept while a strategy asks for it."""
        self.wrr_credit = 0.0
        """Smooth round robin's running credit."""
        self.leaving = False
        """No longer in the table; forgotten when its last request ends."""

        # Cumulative, for telemetry.
        self.picked = 0
        self.succeeded = 0
        self.failed = 0
        self.rejected = 0
        self.cancelled = 0
        self.client_errors = 0
        self.reports_refused = 0
        self.output_tokens = 0
        self.latency: dict[int, int] = {}
        self.first_byte: dict[int, int] = {}
        self.adopt(spec)

    def adopt(self, spec: ReplicaSpec) -> None:
        """Take a newer spec of the same uid and URL; live state stays."""
        self.spec = spec
        self.name = spec.name

    def verify_by(self, tls: Tls) -> None:
        """What the fleet says now of replicas that are spoken to over TLS."""
        if self.tls is not None and tls != self.tls:
            self.tls = tls
            if self.endpoint is not None:
                self.endpoint.verify_by(tls)

    def ask_load(self, asks: bool) -> None:
        """What the fleet says now of asking replicas for their load."""
        if asks != self.asks_load:
            self.asks_load = asks
            if self.endpoint is not None:
                self.endpoint.ask_load(asks)

    def __repr__(self) -> str:
        return (
            f"<Replica {self.name} {self.authority.decode()} in_flight={self.in_flight} work={self.work:g}>"
        )
