"""Telemetry report that every proxy worker sends once a second: cumulative counters and sparse sketches.

Counters only grow while a worker's ``incarnation`` stays the same, so a lost report costs nothing:
the next one carries the sum. Ages are seconds on the reporter's own monotonic clock, never
timestamps, because clocks of two hosts differ.
"""

import msgspec

from routing.contract.load_report import ReportedLoad

SparseSketch = dict[int, int]
"""Bucket index → cumulative count (:mod:`routing.contract.sketch`)."""


class ReplicaCounters(msgspec.Struct, kw_only=True):
    """One replica as one worker has seen it since the worker started."""

    uid: str
    name: str
    picked: int = 0
    succeeded: int = 0
    failed: int = 0
    """5xx, connection refused or lost, timeout."""
    rejected: int = 0
    """429, and 503 with ``Retry-After``: load, not death."""
    cancelled: int = 0
    """The client left first. Neither success nor latency."""
    client_errors: int = 0
    in_flight: int = 0
    work: float = 0.0
    """Outstanding estimated work of requests in flight."""
    seconds_per_work: float | None = None
    """Learned speed; ``None`` while nothing has been learned."""
    output_tokens: int = 0
    ejected_for_s: float | None = None
    """Seconds until probation; ``None``: not ejected."""
    ejection_reason: str = ""
    ejections: int = 0
    no_credential: str = ""
    """Why the token that it wants cannot be read on this worker's host, in words; empty: nothing keeps it out
    so."""
    reported: ReportedLoad | None = None
    """What it last said of its own load, with its age; ``None``: nothing yet."""
    reports_refused: int = 0
    """Answers whose report of load could not be read."""
    elsewhere: int = 0
    """Requests of others than this host's workers that it has at this moment, by its reports."""
    latency: SparseSketch = {}
    """Seconds from pick to last byte of completed requests."""
    first_byte: SparseSketch = {}


class FleetCounters(msgspec.Struct, kw_only=True):
    """One fleet as one worker has seen it since the worker started."""

    name: str
    applied: str = "0:0"
    """``epoch:version`` of the snapshot this worker routes from."""
    refused: str = ""
    """Why a newer snapshot was not taken, if one was not."""
    strategy_trouble: str = ""
    """What its strategy has done wrong within the last minute, and who picks instead."""
    requests: int = 0
    answered: int = 0
    errors: int = 0
    """Requests answered with an error that was not the client's: 5xx of a replica or of the proxy."""
    retries: int = 0
    cancelled: int = 0
    no_replica: int = 0
    spilled: int = 0
    """Attempts at replicas of another site than the proxy's own, while its policy prefers the own one."""
    stayed: int = 0
    """Attempts at those of the own site, or of none, at the same time."""
    in_flight: int = 0
    """Begun and not ended yet; those that wait are among them."""
    waiting: int = 0
    """Requests that wait for a slot at a replica, in this worker."""
    oldest_wait_s: float = 0.0
    """How long the first of them has waited."""
    queued: int = 0
    """Requests that have had to wait."""
    queue_full: int = 0
    """Requests that were refused because as many waited as may, or for one of a higher class."""
    queue_late: int = 0
    """Requests that were refused because their wait was, or would have been, longer than it may be."""
    cold: int = 0
    """Requests that were refused because every replica was still loading."""
    affinity_kept: int = 0
    """Requests that went to the replica that their key leads to."""
    affinity_spilled: int = 0
    """Requests that went to another replica, because theirs had too much in flight, or no free slot."""
    affinity_new: int = 0
    """Requests whose key led nowhere yet."""
    usual_work: float = 0.0
    """Mean estimate of requests, corrected; 0: the worker knows of no answer yet."""
    usual_s: float = 0.0
    """Mean seconds of answers."""
    answer_tokens: float = 0.0
    """Mean length of responses, which a request without ``max_tokens`` counts for; 0: none is known yet."""
    estimates_explain: float | None = None
    """Share of the variance of what requests take that their estimates tell, 0 to 1; ``None``: not known."""
    estimates_corrected: bool = False
    """Whether estimates are multiplied by what was learned of such as they."""
    waited: SparseSketch = {}
    """Seconds that requests waited which then found a slot."""
    latency: SparseSketch = {}
    """Seconds from complete request head to last response byte, as clients saw it."""
    replicas: list[ReplicaCounters] = []


class KeyCounters(msgspec.Struct, kw_only=True):
    """One client key as one worker has seen it since the worker started."""

    id: str
    """:attr:`routing.contract.table.KeyLimits.id`."""
    requests: int = 0
    """Requests that came with it."""
    in_flight: int = 0
    """Those in flight and waiting, as its ``max_concurrency`` counts them."""
    limited: int = 0
    """Requests refused because of the key's own limits. They are among ``requests`` too."""
    limited_by: dict[str, int] = {}
    """The same by limit: ``requests_per_minute``, ``max_concurrency``, ``tokens_per_minute``."""
    tokens: int = 0
    """Prompt and output tokens, as answers report them."""


class AcceleratorCounters(msgspec.Struct, kw_only=True):
    """One device as one worker has seen it."""

    name: str
    leased_bytes: int = 0
    """Reserved by requests in flight of this worker."""
    leasable_bytes: int = 0
    """What requests of all workers of its proxy can reserve there at one time; 0: it is not in the table."""
    lease_waits: int = 0
    """Requests that have had to wait, or went elsewhere, because memory was short there."""


class ManualDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that an operator took out at this proxy alone."""

    fleet: str
    replica: str
    expires_in_s: float


class WorkerReport(msgspec.Struct, kw_only=True):
    """One worker's report of one second."""

    worker: str
    """Stable name ``host/parent pid/index``."""
    incarnation: int
    """Changes when the worker restarts and its counters begin again at 0."""
    sequence: int
    host: str = ""
    pid: int = 0
    software: str = ""
    site: str = ""
    """Where its proxy says that it is; empty: it does not say."""
    manifest: str = "0:0"
    table_age_s: float = 0.0
    redis_ok: bool = True
    draining: bool = False
    limits_shared_by: int = 1
    """Proxies among which limits are shared out, as far as this worker has heard."""
    uptime_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds used by the worker since it started."""
    clients: int = 0
    upstreams: int = 0
    rejected: int = 0
    """Requests refused before any fleet was found: malformed, unknown model, too large."""
    max_clients: int = 0
    """Connections of clients that it takes at one time; 0: it does not say."""
    refused_clients: int = 0
    """Connections of clients that were answered 503, because all places were taken."""
    evicted_clients: int = 0
    """Idle connections of clients that were closed for new ones."""
    open_fds: int = 0
    max_fds: int = 0
    short_of: str = ""
    """``descriptors``: they are nearly used up; ``connections``: new ones of clients are refused."""
    fleets: list[FleetCounters] = []
    keys: list[KeyCounters] = []
    """Keys that have been used since the worker started."""
    accelerators: list[AcceleratorCounters] = []
    drained_by_hand: list[ManualDrain] = []
    """Overrides in force at this proxy, the same in all its workers."""


def encode_report(report: WorkerReport) -> bytes:
    return msgspec.json.encode(report)


def decode_report(data: bytes) -> WorkerReport:
    """Raises :class:`msgspec.MsgspecError` on a bad message."""
    return msgspec.json.decode(data, type=WorkerReport)


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer to one snapshot or manifest."""

    applied: str
    """``epoch:version`` the worker now routes from."""
    refused: str = ""


def encode_acknowledgement(ack: Acknowledgement) -> bytes:
    return msgspec.json.encode(ack)


def decode_acknowledgement(data: bytes) -> Acknowledgement:
    """Raises :class:`msgspec.MsgspecError` on a bad message."""
    return msgspec.json.decode(data, type=Acknowledgement)
