"""One replica's live state in one worker: in flight, outstanding work, learned speed, ejection.

The objects here only hold state. All times are ``time.monotonic()`` seconds. What each pick reads, or each
begin and settle writes, is flat in :class:`Replica`: one level less to look up. All other state is in small
objects, in the modules beside this one.

Who sets the fields of :class:`Replica` (a test compares this list with the code):

- ``attempt.attempt``: in_flight, work, load, load_work, awaited_since, last_heard_at, stall_exempt, picked,
  succeeded, failed, output_tokens, input_tokens, streams, told_at
- ``attempt.tunnel``, an attempt without a response: picked, stall_exempt
- ``replica.sibling_load``: peer_in_flight, peer_load, peer_load_work, queued, queued_work, external_load,
  external_load_work, and with these load, load_work
- ``learning.fleet_speed``: seconds_per_work, cost, depth_power
- ``learning.latency_ewma``: answer_s; speed_by_load, favour are reset on return
- ``learning.latency_by_load``: speed_by_load
- ``learning.tail_weight``: favour
- ``outlier.effective_weight``: ramp, share, concurrency, limit, limited, slot_freed, weighed_by,
  weighed_spec, and cost, of which ramp is a part
- ``outlier.inspection``: inspected
- ``outlier.outlier_detector``: last_heard_at, if it refused a request, or another worker has let it back
- ``admission.memory_leases``: memory
- ``admission.fleet_warmup``: checking_since
- ``pool.due_pick``: due_sensitivity, due_picked
- ``strategies.smooth_wrr``: wrr_credit
- ``strategies.prefix_affinity``: draw_seed
- ``replica.prefix_cache_index``: prefix_column
- ``pool.prefix_columns``: prefix_column, if another replica has it by now
- ``pool.endpoint_set``: cells, cell_view, cell_at, leaving; wrr_credit, reset when weights change
"""

from collections.abc import Callable
from math import inf
from typing import Protocol

from routing.balancing.replica.continuation_trial import ContinuationTrial
from routing.balancing.replica.device_memory import ReplicaMemory
from routing.balancing.replica.learned_state import (
    UNKNOWN_BY_LOAD,
    LatencyMemory,
    LearnedSpeed,
    LoadSlope,
    SpeedByLoad,
)
from routing.balancing.replica.load_reports import LoadReports
from routing.balancing.replica.moves import Moves
from routing.balancing.replica.outcome_totals import OutcomeTotals
from routing.balancing.replica.outlier_state import (
    DoubtState,
    EjectionState,
    FailureLoad,
    SlowStartState,
)
from routing.balancing.replica.stream_times import StreamTimes
from routing.balancing.replica.upstream_address import UpstreamAddress, UpstreamSecurity
from routing.contract.table import ReplicaSpec, Tls
from routing.shared.shm_counters import CounterCells


class UpstreamHooks(Protocol):
    """What the proxy keeps of a replica: its connections. A protocol, for balancing knows no proxy."""

    def verify_by(self, tls: Tls) -> None:
        """No connection that was verified otherwise is to be used again."""

    def ask_load(self, asks: bool) -> None:
        """Whether requests ask the replica for its load."""

    def silent_requests(
        self, now: float, for_s: float, work_s: float = 0.0, after: float = 0.0
    ) -> tuple[int, int]:
        """How many requests in flight are older than that, and how many of these have heard nothing as long.
        Not counted: tunnels, and requests that their clients are still sending. ``work_s``: seconds that each
        unit of a request's work allows it, where that is more. ``after``: only those sent after that."""

    def free_requests(self, words: str, *, all_of_them: bool, before: float = inf) -> None:
        """The replica is taken to be lost: soon have its requests retried elsewhere. ``all_of_them``: also
        end those that may not be retried; else they go on waiting. ``before``: only those sent before
        that."""

    def write_off_silent(self, now: float, for_s: float, work_s: float, before: float) -> int:
        """Write off the attempts that were sent before then and have heard nothing for so long (as of
        :meth:`silent_requests`). Returns how many still wait that were sent before then."""


class Replica:
    """One replica as one worker sees it. Kept over table swaps while uid and URL stay the same."""

    __slots__ = (
        "address",
        "answer_s",
        "awaited_since",
        "cell_at",
        "cell_view",
        "cells",
        "checking_since",
        "concurrency",
        "continuation",
        "cost",
        "depth_power",
        "doubt",
        "draw_seed",
        "due_picked",
        "due_sensitivity",
        "ejection",
        "endpoint",
        "external_load",
        "external_load_work",
        "failed",
        "failure_load",
        "favour",
        "first_byte",
        "in_flight",
        "input_tokens",
        "inspected",
        "last_heard_at",
        "latency",
        "latency_memory",
        "leaving",
        "limit",
        "limited",
        "load",
        "load_reports",
        "load_slope",
        "load_work",
        "memory",
        "moves",
        "name",
        "outcomes",
        "output_tokens",
        "peer_in_flight",
        "peer_load",
        "peer_load_work",
        "picked",
        "prefix_column",
        "queued",
        "queued_work",
        "ramp",
        "seconds_per_work",
        "security",
        "share",
        "slot_freed",
        "slow_start",
        "spec",
        "speed",
        "speed_by_load",
        "stall_exempt",
        "streams",
        "succeeded",
        "told_at",
        "uid",
        "weighed_by",
        "weighed_spec",
        "work",
        "wrr_credit",
    )

    def __init__(self, spec: ReplicaSpec) -> None:
        """Raises ValueError in words when ``spec.url`` is not a base URL a replica can have."""
        # Who it is. `adopt` replaces the spec when a new table changes weight, states or limits.
        self.uid = spec.uid
        self.address = address = UpstreamAddress.of(spec.url)
        self.security = UpstreamSecurity(Tls() if address.is_https else None)
        self.endpoint: UpstreamHooks | None = None
        """The proxy's connections to this replica, made with its first request. Read for each request."""
        self.memory: ReplicaMemory | None = None
        """``None``: requests reserve nothing here. Read at each begin where there is a limit."""
        self.leaving = False
        """No longer in the table; forgotten when its last request ends. Read at each settle."""
        self.load_reports = LoadReports()
        self.continuation = ContinuationTrial()
        self.moves = Moves()

        # Load. Each pick reads `load`, `load_work` and, where there is a limit, `in_flight` and the peers'.
        self.in_flight = 0
        self.work = 0.0
        """Of this worker's requests in flight."""
        self.load = 0
        self.load_work = 0.0
        """The sums of all below and above: what strategies read."""
        self.queued = 0
        self.queued_work = 0.0
        """What waits in this worker's queue for a slot here."""
        self.external_load = 0
        self.external_load_work = 0.0
        """Of others than this host's workers, as the replica reports. Part of the peers' sums below."""
        self.peer_in_flight = 0
        self.peer_load = 0
        self.peer_load_work = 0.0
        """Of sibling workers. The last two with what waits there for a slot here, and the second with
        :attr:`failure_load`."""
        self.failure_load = FailureLoad()
        self.cells: CounterCells | None = None
        self.cell_view: memoryview[float] | None = None
        self.cell_at = 0

        # What was learned. Each settle writes the speed, by way of `learning`.
        self.speed = LearnedSpeed()
        self.seconds_per_work = 1.0
        self.load_slope = LoadSlope()
        self.latency_memory = LatencyMemory()
        """Kept while a strategy asks for it."""
        self.speed_by_load: SpeedByLoad = UNKNOWN_BY_LOAD
        """Kept while a strategy asks for it."""

        # What outlier detection goes by.
        self.last_heard_at = 0.0
        """When the last byte came from the replica, in this worker; or when another worker let it back."""
        self.told_at = 0.0
        """When tokens last came of a stream that goes on, to within a quarter of a second."""
        self.awaited_since = 0.0
        """When a request was begun here while none was waiting for the replica."""
        self.stall_exempt = 0
        """Of those in flight in this worker, those whose silence is not judged: tunnels, requests of clients
        with a short deadline, and those that their clients are still sending."""
        self.ejection = EjectionState()
        self.inspected = False
        """Whether the next response is to be looked at as a whole. Read for each response."""
        self.doubt = DoubtState()
        self.slow_start = SlowStartState()
        self.checking_since: float | None = None
        """Since when this worker knows that no probe has passed yet; ``None``: one has."""

        # What strategies read at each pick. `outlier.effective_weight` writes on the slow timer.
        self.ramp = 1.0
        """Part of its weight that slow start and soft ejection leave: above 0, at most 1.0."""
        self.share = 1.0
        """``weight · ramp``."""
        self.concurrency: int | None = None
        """Requests of this proxy it works on at once, scaled by slow start; ``None``: a batching server."""
        self.limit: int | None = None
        """Concurrency limit: requests of this proxy it is given at one time; ``None``: there is none."""
        self.weighed_by: object = None
        self.weighed_spec = spec
        """What these were computed by, so that they are not while that holds."""
        self.limited = False
        """Whether a request has to claim a slot or memory here."""
        self.slot_freed: Callable[[Replica], None] | None = None
        """Called with it when a request has ended that had a slot here."""
        self.cost = 1.0
        """``seconds_per_work / ramp``, drawn to the fleet's as far as it may be chance."""
        self.depth_power = 1.0
        """To which power the number of requests there counts: 0 at a server with slots, up to 1 at one that
        batches."""
        self.answer_s = 1.0
        """Seconds a response takes, for strategies that go by it
        (:mod:`routing.balancing.learning.latency_ewma`)."""
        self.favour = 1.0
        """Factor on its weight by its slowest responses, for strategies that go by those
        (:mod:`routing.balancing.learning.tail_weight`)."""

        # What picks of requests that are due go by.
        self.due_sensitivity = 0.0
        """By how much its requests' chance to be in time falls, on average, by the logarithm of the time."""
        self.due_picked = 0
        """``picked`` when that was last renewed."""

        # What strategies write themselves.
        self.wrr_credit = 0.0
        """Smooth weighted round robin's running credit."""
        self.draw_seed = 0
        """Its number in draws by a prompt, the same in all workers and on all hosts; 0: none yet."""
        self.prefix_column = 0
        """Where its column of the prefix memory begins; 0: it has none (yet)."""

        # Totals since the worker started, which attempts write. The rare ones are in `outcomes`.
        self.picked = 0
        self.succeeded = 0
        self.failed = 0
        self.output_tokens = 0
        self.input_tokens = 0
        """Of prompts."""
        self.streams: StreamTimes | None = None
        """``None``: no answer of it was streamed yet."""
        self.latency: dict[int, int] = {}
        """Sketch of response times: requests by bucket (:mod:`routing.contract.sketch`)."""
        self.first_byte: dict[int, int] = {}
        """The same until the first byte."""
        self.outcomes = OutcomeTotals()
        self.adopt(spec)

    @property
    def host(self) -> str:
        """Of its base URL, for those who use the library."""
        return self.address.host

    @property
    def port(self) -> int:
        """Of its base URL, for those who use the library."""
        return self.address.port

    def adopt(self, spec: ReplicaSpec) -> None:
        """Take a newer spec of the same uid and URL; live state stays."""
        self.spec = spec
        self.name = spec.name

    def verify_by(self, tls: Tls) -> None:
        """What the fleet says now of replicas that are spoken to over TLS."""
        security = self.security
        if security.tls is not None and tls != security.tls:
            security.tls = tls
            if self.endpoint is not None:
                self.endpoint.verify_by(tls)

    def ask_load(self, asks: bool) -> None:
        """What the fleet says now of asking replicas for their load."""
        if asks != self.load_reports.asked:
            self.load_reports.asked = asks
            if self.endpoint is not None:
                self.endpoint.ask_load(asks)

    @property
    def quiet_since(self) -> float:
        """Since when nothing was heard of it, or nothing was waited for: its silence counts from then on."""
        return max(self.last_heard_at, self.awaited_since)

    def __repr__(self) -> str:
        return (
            f"<Replica {self.name} {self.address.authority.decode()} in_flight={self.in_flight} "
            f"work={self.work:g}>"
        )
