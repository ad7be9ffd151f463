"""Merged numbers: what goes on now at replicas, fleets, keys and devices, over all live workers. Data only.

Rates are per second, durations in seconds, "now" is the last WINDOW_S seconds.
"""

from dataclasses import dataclass, field
from statistics import fmean

from controlplane.telemetry.key_traffic import KeyNumbers
from controlplane.telemetry.measures import HistorySubject, Measures
from controlplane.telemetry.queues import QueueNumbers
from controlplane.telemetry.token_windows import NOTHING, Percentiles
from routing.contract.learned_service import LearnedShape, combined_scale, combined_shape
from routing.contract.load_report import ReportedLoad
from routing.contract.telemetry import FleetCounters, LearnedScale, WorkerReport


@dataclass(slots=True)
class ReplicaNumbers:
    """One replica over all live workers. Rates per second, latencies in seconds."""

    uid: str
    name: str
    rps: float = 0.0
    errors_per_s: float = 0.0
    answers: int = 0
    """Successful responses since the last merge."""
    in_flight: int = 0
    speeds: list[float] = field(default_factory=list)
    """Seconds per unit of work, as each worker has learned it."""
    scales: list[LearnedScale] = field(default_factory=list)
    """The same beside the fleet's, of each worker that tells."""
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    first_token: Percentiles = NOTHING
    between_tokens: Percentiles = NOTHING
    input_tokens_per_s: float = 0.0
    output_tokens_per_s: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    """Outcome → failed attempts within the last WINDOW_S."""
    window_requests: int = 0
    workers: int = 0
    """Live workers that route to it."""
    ejected_by: int = 0
    """How many of those have it ejected or on probation."""
    ejected_for_s: float = 0.0
    """Longest time until one of them gives it probation; 0: on probation."""
    ejection_reason: str = ""
    """Of the worker that saw most; others of its host merely follow it."""
    doubt: str = ""
    """Why it is tried out, gets no more than its share, or is said to be back, in the words of one worker."""
    doubted_by: int = 0
    """How many workers say so."""
    reported: ReportedLoad | None = None
    """Its load report, from the worker that has the newest."""
    ejections: dict[tuple[str, int], int] = field(default_factory=dict)
    """(worker, incarnation) → ejections since it started."""
    no_credential: str = ""
    """Why a worker cannot read its credential, for people."""
    no_credential_at: int = 0
    """How many workers cannot."""
    drained_at: dict[str, float] = field(default_factory=dict)
    """Proxies with an emergency drain of it → seconds until that ends."""
    drained_everywhere: bool = False
    """Whether these are all that route for the fleet."""
    movable: int = 0
    """Requests in flight that another replica could go on with, once it has room."""
    movable_prompt_tokens: int = 0
    staying: dict[str, int] = field(default_factory=dict)
    """The others that were looked at, by reason."""
    moved: int = 0
    """Since it is to be free."""
    moved_prompt_tokens: int = 0

    @property
    def seconds_per_work(self) -> float | None:
        """Mean over the workers that have learned it."""
        return fmean(self.speeds) if self.speeds else None

    @property
    def learned(self) -> LearnedScale | None:
        """All workers' together; ``None``: none has learned anything."""
        return combined_scale(self.scales)


@dataclass(slots=True)
class SiteNumbers:
    """The proxies of one site: attempts a second, by whether they stayed there."""

    stayed_per_s: float = 0.0
    spilled_per_s: float = 0.0


@dataclass(slots=True)
class FallbackNumbers:
    """Requests of a fleet that another one serves in its place."""

    per_s: float = 0.0
    lately: int = 0
    """Within the last WINDOW_S."""
    causes: dict[str, int] = field(default_factory=dict)
    """Cause → how many since the workers began."""


@dataclass(slots=True)
class FleetNumbers:
    """One fleet over all live workers."""

    name: str
    rps: float = 0.0
    errors_per_s: float = 0.0
    in_flight: int = 0
    would_refuse: int = 0
    """Requests since the workers began that were forwarded only because the fleet has no ``expose``."""
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    error_percent: float = 0.0
    window_requests: int = 0
    kept_per_s: float = 0.0
    """Requests sent to the replica of their affinity key. Below: sent elsewhere; not yet mapped."""
    spilled_per_s: float = 0.0
    new_per_s: float = 0.0
    sites: dict[str, SiteNumbers] = field(default_factory=dict)
    """Of its proxies, by name; empty: those that have none."""
    fallbacks: dict[str, FallbackNumbers] = field(default_factory=dict)
    """By the other fleet's name."""
    no_fallback: dict[str, int] = field(default_factory=dict)
    """What kept requests from falling back → how many since the workers began."""
    queue: QueueNumbers = field(default_factory=QueueNumbers)
    first_byte: Percentiles = NOTHING
    first_token: Percentiles = NOTHING
    between_tokens: Percentiles = NOTHING
    waits: Percentiles = NOTHING
    """In the queue, of requests that got a slot."""
    input_tokens_per_s: float = 0.0
    retries_per_s: float = 0.0
    ejections_per_s: float = 0.0
    error_reasons: dict[str, float] = field(default_factory=dict)
    """Reason → requests a second that ended so."""
    lately_failed: dict[str, int] = field(default_factory=dict)
    """Reason → how many within the last WINDOW_S."""
    output_tokens_per_s: float = 0.0
    served_per_s: float = 0.0
    """Requests that ended at replicas, each attempt by itself."""
    applied: dict[str, str] = field(default_factory=dict)
    """Worker → ``epoch:version`` of the snapshot it routes from."""
    refused: dict[str, str] = field(default_factory=dict)
    """Worker → why it did not take a newer snapshot."""
    told: list[FleetCounters] = field(default_factory=list)
    """The reports of it, which say how its replicas serve under load, and how good predictions were."""
    replicas: dict[str, ReplicaNumbers] = field(default_factory=dict)
    """By uid."""

    @property
    def shape(self) -> LearnedShape | None:
        """All workers' together; ``None``: none tells."""
        return combined_shape(self.told)


@dataclass(slots=True)
class AcceleratorNumbers:
    """One device over all live workers."""

    leased_bytes: int = 0
    lease_waits: int = 0
    """Requests of the last WINDOW_S that waited, or went elsewhere, because memory was short there."""


@dataclass(frozen=True, slots=True)
class ReportingWorker:
    report: WorkerReport
    age_s: float
    cpu_percent: float


@dataclass(slots=True)
class Merged:
    """One second of everything."""

    fleets: dict[str, FleetNumbers] = field(default_factory=dict)
    total: FleetNumbers = field(default_factory=lambda: FleetNumbers("*"))
    refused_per_s: float = 0.0
    """Requests that reached no fleet, over the last WINDOW_S: no client key, an unknown name, malformed."""
    keys: dict[str, KeyNumbers] = field(default_factory=dict)
    """Client keys by their ids: those that live workers report, and those used within the last minute."""
    news: dict[HistorySubject, Measures] = field(default_factory=dict)
    """What was learned by this merge alone, for history."""
    workers: dict[str, ReportingWorker] = field(default_factory=dict)
    accelerators: dict[str, AcceleratorNumbers] = field(default_factory=dict)
    """By name; those that some live worker reports."""
