"""Telemetry report that every proxy worker sends once a second: cumulative counters and sparse sketches.

Counters only grow while a worker's ``incarnation`` stays the same, so a lost report costs nothing:
the next one carries the sum. Ages are seconds on the reporter's own monotonic clock, never
timestamps, because clocks of two hosts differ.
"""

import msgspec

from routing.contract.ended_requests import EndedRequests
from routing.contract.load_report import ReportedLoad

SAID_BY_ANOTHER = "another worker of this host"
"""Begins the reason of an ejection that a worker follows."""

SparseSketch = dict[int, int]
"""Bucket index → cumulative count (:mod:`routing.contract.sketch`)."""


class LearnedScale(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one replica is, as one worker has learned it and goes by it."""

    times_usual: float
    """Seconds per unit of work, over what is usual in the fleet for a replica of its weight. Drawn to 1, as
    far as the difference may be chance."""
    error: float
    """Standard error of that, as a factor of at least 1."""
    request_s: float
    """Seconds that a request of mean size takes there."""
    requests: float
    """Evidence in requests of mean size, each counting less as it ages. Of this worker alone."""


class ReplicaCounters(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One replica as one worker has seen it since the worker started. What is as by default is left out of
    the message: of ten thousand replicas most have nothing to say."""

    uid: str
    name: str
    picked: int = 0
    succeeded: int = 0
    failed: int = 0
    """5xx, connection refused or lost, truncated stream, timeout."""
    failed_by: dict[str, int] = {}
    """The same by outcome: ``failed`` (5xx), ``without_model``, ``refused``, ``lost``, ``truncated``,
    ``timeout``."""
    rejected: int = 0
    """429, and 503 with ``Retry-After``: load, not death."""
    cancelled: int = 0
    """The client left first, or the request was moved. Neither success nor latency."""
    client_errors: int = 0
    without_result: int = 0
    """200 with a body that is no answer of its protocol, where other replicas answer."""
    truncated: int = 0
    """Of the failed ones: streams that ended before their answer did, well in HTTP."""
    beaten: int = 0
    """Given up, because a second replica was asked as well and has answered first."""
    in_flight: int = 0
    work: float = 0.0
    """Outstanding estimated work of requests in flight."""
    seconds_per_work: float | None = None
    """Learned speed; ``None`` while nothing has been learned."""
    learned: LearnedScale | None = None
    """The same beside the fleet's, and how sure it is; ``None``: nothing was learned, or an older version."""
    input_tokens: int = 0
    """Tokens of prompts, as :attr:`EndedRequests.input_tokens`."""
    output_tokens: int = 0
    ejected_for_s: float | None = None
    """Seconds until probation; ``None``: not ejected."""
    ejection_reason: str = ""
    """Begins with :data:`SAID_BY_ANOTHER` where another worker of the host has ejected it."""
    ejections: int = 0
    doubt: str = ""
    """Why it is tried out, or gets no more than its fair share, although it is eligible, in words; empty: it
    is as any other."""
    continuation: str = ""
    """What its trial has shown: whether it continues what another replica has begun; empty: not tried."""
    movable: int = 0
    """Requests in flight that another replica could go on with, as soon as it has room. Looked at where the
    fleet continues streams, or the replica is to be free."""
    movable_prompt_tokens: int = 0
    """Prompt tokens that it would have to read for that, as estimated."""
    staying: dict[str, int] = {}
    """The others, by reason (:data:`routing.contract.moving.STAYS`)."""
    moved: int = 0
    """Requests that have left for another replica since this one is to be free."""
    moved_prompt_tokens: int = 0
    """Prompt tokens that others have to read for those, as estimated."""
    no_credential: str = ""
    """Why its credential cannot be read on this worker's host; empty: it can, or there is none."""
    reported: ReportedLoad | None = None
    """Its last load report, with its age; ``None``: none yet."""
    reports_refused: int = 0
    """Responses with an invalid load report."""
    elsewhere: int = 0
    """Requests at it that did not come from this host's workers, from its load reports."""
    latency: SparseSketch = {}
    """Seconds from pick to last byte of completed requests."""
    first_byte: SparseSketch = {}
    first_token: SparseSketch = {}
    """Seconds from pick to the first content of streamed answers."""
    between_tokens: SparseSketch = {}
    """Seconds between two tokens of a streamed answer, on average over the answer: one for each."""


class FleetCounters(msgspec.Struct, kw_only=True):
    """One fleet as one worker has seen it since the worker started."""

    name: str
    applied: str = "0:0"
    """``epoch:version`` of the snapshot this worker routes from."""
    refused: str = ""
    """Why a newer snapshot was refused; empty: none was."""
    strategy_trouble: str = ""
    """Error of its strategy within the last minute, and which strategy replaces it."""
    requests: int = 0
    answered: int = 0
    errors: int = 0
    """Requests that failed with a 5xx, from a replica or from the proxy."""
    retries: int = 0
    continued: int = 0
    """Streamed answers that had broken off and that another replica has continued."""
    not_continued: dict[str, int] = {}
    """Those that broke off and were not, though the policy would have it, by cause."""
    second_attempts: dict[str, int] = {}
    """Requests that were sent to a second replica, because the first had sent nothing, by result: it ``won``,
    ``lost`` or ``failed``, or the request was ``cancelled`` before that was known."""
    not_sent_twice: dict[str, int] = {}
    """Those that would have been, but for ``queue``, ``busy``, ``budget``, ``attempts``, ``no_replica``."""
    fallbacks: dict[str, dict[str, int]] = {}
    """Requests that fell back to another fleet: its name → cause → how many. They are counted there as
    well, so that all fleets' requests less these are what clients have sent."""
    no_fallback: dict[str, int] = {}
    """Times that a request did not fall back though its policy lists the cause, by what kept it from that
    (:data:`NO_FALLBACK`)."""
    moved: int = 0
    """Streams that have left a replica which was to be free, for another."""
    moved_prompt_tokens: int = 0
    """Prompt tokens that the others have to read for that, as estimated."""
    first_token_limit_s: float | None = None
    """After how many seconds without content a stream of usual size is sent to a second replica; ``None``:
    never, or that is not learned yet."""
    cancelled: int = 0
    no_replica: int = 0
    not_exposed: int = 0
    """Requests refused because the fleet does not expose their path or model."""
    would_refuse: int = 0
    """Requests that were forwarded because the fleet has no ``expose``, which ``inference`` would refuse."""
    spilled: int = 0
    """Attempts at replicas of another site than the proxy's own, while its policy prefers the own one."""
    stayed: int = 0
    """Attempts at replicas of the own site, or of no site, meanwhile."""
    in_flight: int = 0
    """Begun and not ended yet, including those that wait."""
    waiting: int = 0
    """Requests waiting in this worker's queue."""
    oldest_wait_s: float = 0.0
    """Wait of the oldest of them."""
    queued: int = 0
    """Requests that had to wait in the queue."""
    queue_full: int = 0
    """Requests rejected because the queue was full, or displaced by another request."""
    queue_late: int = 0
    """Requests rejected because they waited too long in the queue, or would have."""
    cold: int = 0
    """Requests rejected because every replica was still loading."""
    affinity_kept: int = 0
    """Requests sent to the replica of their affinity key."""
    affinity_spilled: int = 0
    """Requests sent elsewhere: their affinity key's replica had too much load or no slot."""
    affinity_new: int = 0
    """Requests whose affinity key had no replica yet."""
    web_socket_messages: int = 0
    """Messages on WebSockets, of clients and replicas together."""
    web_socket_bytes: int = 0
    """Bytes of them, frames included."""
    usual_work: float = 0.0
    """Mean estimated work of requests, corrected; 0: no request has completed yet."""
    usual_s: float = 0.0
    """Mean duration of responses, in seconds."""
    answer_tokens: float = 0.0
    """Mean length of responses in tokens, assumed for requests without ``max_tokens``; 0: not known yet."""
    estimates_explain: float | None = None
    """Share of the variance of actual work that the estimates explain, 0 to 1; ``None``: not known."""
    estimates_corrected: bool = False
    """Whether estimates are corrected by what was learned from similar requests."""
    growth: float = 0.0
    """Factor by which a unit of work takes longer where twice as many requests are in flight, as learned.
    0: of a worker that does not tell."""
    growth_error: float = 0.0
    """Its standard error, as a factor of at least 1."""
    batching: float = 0.0
    """How far replicas are taken for batching servers: 0 (they have slots) to 1."""
    growth_evidence: float = 0.0
    """Share of what is known of the growth that was measured, 0 to 1; the rest is assumed."""
    growth_measured: float = 0.0
    """How many measurements that rests on, each counting less as it ages. Of this worker alone."""
    picked_in_time: int = 0
    """Requests that went to another replica than the strategy's choice, where they were likelier in time."""
    predictions_within: int = 0
    """Sampled responses that were complete within the interval predicted for 80 % of them."""
    first_token_predictions_within: int = 0
    """Sampled streams whose first token came within it."""
    prediction_error: SparseSketch = {}
    """Relative errors of the predicted completion of sampled responses, in parts of what it took."""
    first_token_prediction_error: SparseSketch = {}
    """The same of the first token of sampled streams."""
    waited: SparseSketch = {}
    """Seconds in the queue, of requests that got a slot."""
    latency: SparseSketch = {}
    """Seconds from complete request head to last response byte, as clients saw it."""
    first_token: SparseSketch = {}
    """Seconds from complete request head to the first content of streamed answers, as clients saw it."""
    between_tokens: SparseSketch = {}
    """Seconds between two tokens of a streamed answer, as clients saw it, on average over the answer: one
    for each whole answer."""
    ended: EndedRequests | None = None
    """Exact totals, which go on where an earlier worker of the same number ended; ``None``: of an older
    version."""
    replicas: list[ReplicaCounters] = []


class KeyCounters(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One client key as one worker has seen it since the worker started."""

    id: str
    """:attr:`routing.contract.table.KeyLimits.id`."""
    requests: int = 0
    """Requests with the key."""
    in_flight: int = 0
    """Requests in flight and waiting: what its ``max_concurrency`` limits."""
    limited: int = 0
    """Requests rejected because of the key's limits. ``requests`` includes them."""
    limited_by: dict[str, int] = {}
    """The same by limit: ``requests_per_minute``, ``max_concurrency``, ``tokens_per_minute``."""
    tokens: int = 0
    """Prompt and output tokens, as responses report them."""
    errors: dict[str, int] = {}
    """Requests that failed, by reason (:data:`routing.contract.ended_requests.ERROR_REASONS`)."""
    latency: SparseSketch = {}
    """From a request's complete head to the end of its answer. Begins anew once the key was not used for a
    minute, and where too many others are."""
    first_token: SparseSketch = {}
    """The same to the first content of a streamed answer."""


class AcceleratorCounters(msgspec.Struct, kw_only=True):
    """One device as one worker has seen it."""

    name: str
    leased_bytes: int = 0
    """Leased by requests in flight of this worker."""
    leasable_bytes: int = 0
    """What requests of all workers of its proxy can lease on it; 0: the device is not in the table."""
    lease_waits: int = 0
    """Requests that waited, or went to another replica, because the device was short of memory."""


class EmergencyDrainReport(msgspec.Struct, frozen=True, kw_only=True):
    """An emergency drain: a replica that an operator took out at this proxy only."""

    fleet: str
    replica: str
    expires_in_s: float


NO_FALLBACK = {
    "adapter": "the request names an adapter, which no other fleet has",
    "attempts": "the request had its two extra attempts",
    "body": "the request's body is larger than is kept, or than the other fleet takes",
    "budget": "the fallback budget was used up",
    "fleet": "the other fleet is not there, or refuses the request",
    "key": "the client key is not for the other fleet",
    "late": "the request would be late there too",
    "not_safe": "the request must not be sent twice, or is bound to its replica",
}
"""The reasons of :attr:`FleetCounters.no_fallback`."""

GAVE_WAY = {
    "address_share": "a new connection, of an address that has many, was refused",
    "body_memory": "a body was refused",
    "body_stalled": "a body that had stalled was refused",
    "body_timeout": "a body was too slow: 408",
    "half_head": "a connection with a half head was closed",
    "head_timeout": "a head was too slow: 408",
    "pipelined": "a client that sent many further requests before its response was cut off",
    "retry_copy": "a copy kept for a retry was freed",
    "silent": "a connection from which nothing had come yet was closed",
    "slow_client": "a connection of a slow sender or reader was closed",
    "unread_response": "a client that did not take its response was cut off: there was no memory for it",
    "upload_stalled": "a streamed body whose replica took nothing ended: 408",
    "write_stall": "a client took next to nothing of its response",
}
"""The reasons of :attr:`WorkerReport.gave_way`."""


class WorkerReport(msgspec.Struct, kw_only=True):
    """One worker's report of one second."""

    worker: str
    """Stable name ``host/master pid/index``."""
    incarnation: int
    """Changes when the worker restarts and its counters begin again at 0."""
    sequence: int
    host: str = ""
    pid: int = 0
    software: str = ""
    compiled: bool = False
    """Whether it runs compiled modules; else it runs from source."""
    site: str = ""
    """Site of its proxy; empty: none set."""
    manifest: str = "0:0"
    installation: str = ""
    """Installation that it routes for; empty: its manifest names none, or there is no manifest."""
    refused_manifest: str = ""
    """Why the manifest in Redis is refused; empty: it is not."""
    table_age_s: float = 0.0
    redis_ok: bool = True
    draining: bool = False
    limits_shared_by: int = 1
    """Proxies that share the limits, as this worker knows."""
    uptime_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds used by the worker since it started."""
    clients: int = 0
    upstreams: int = 0
    rejected: int = 0
    """Requests rejected before a fleet was found: malformed, unknown model, too large."""
    max_clients: int = 0
    """Its limit of client connections; 0: not reported."""
    refused_clients: int = 0
    """Client connections refused because the connection limit was reached."""
    evicted_clients: int = 0
    """Idle client connections closed to make room for new ones."""
    gave_way: dict[str, int] = {}
    """What was refused or closed at a bound that holds for whoever sends: reason → how often."""
    body_bytes: int = 0
    """Bytes of request bodies that it holds."""
    max_body_bytes: int = 0
    """How many it may hold; 0: not reported."""
    open_fds: int = 0
    max_fds: int = 0
    short_of: str = ""
    """``descriptors``: nearly used up; ``connections``: client connections are refused, or closed
    for others."""
    certificate_left_s: float | None = None
    """Until its listener's certificate ends, negative afterwards; ``None``: it has none."""
    prefixes_sent: int = 0
    """Hashes of prompts' prefixes that it told other hosts (``prefix_affinity``)."""
    prefixes_applied: int = 0
    """Such hashes of other hosts that it noted for its own host."""
    prefixes_left_out: int = 0
    """Such hashes that it did not tell or not note: too many at once, or Redis was away."""
    prefix_messages_refused: int = 0
    """Messages about them that it could not read."""
    totals: str = ""
    """Identity of the memory that :attr:`FleetCounters.ended` is counted in: while it and the worker's name
    stay the same, those totals only grow, also over restarts."""
    fleets: list[FleetCounters] = []
    keys: list[KeyCounters] = []
    """Keys that have been used since the worker started."""
    accelerators: list[AcceleratorCounters] = []
    drained_by_hand: list[EmergencyDrainReport] = []
    """Overrides in force at this proxy, the same in all its workers."""


def encode_report(report: WorkerReport) -> bytes:
    return msgspec.json.encode(report)


def decode_report(data: bytes) -> WorkerReport:
    """Raises :class:`msgspec.MsgspecError` on a bad message."""
    return msgspec.json.decode(data, type=WorkerReport)


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's acknowledgement of one snapshot or manifest."""

    applied: str
    """``epoch:version`` the worker now routes from."""
    refused: str = ""


def encode_acknowledgement(ack: Acknowledgement) -> bytes:
    return msgspec.json.encode(ack)


def decode_acknowledgement(data: bytes) -> Acknowledgement:
    """Raises :class:`msgspec.MsgspecError` on a bad message."""
    return msgspec.json.decode(data, type=Acknowledgement)
