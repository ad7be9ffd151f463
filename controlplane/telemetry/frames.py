"""Frames: what the conductor sends to open pages once a second, and keeps as history.

Rates are per second over the last second; percentiles are of merged sketches over the last
WINDOW_S seconds, in seconds; ``None`` where there was nothing to measure. Percentages (errors, shares)
look back WINDOW_S as well.
"""

import msgspec

from controlplane.scaling.signal import ScalingSignal

WINDOW_S = 10
"""Percentiles look back this far: at gentle rates one second holds too few requests for a p99."""

OVERVIEW_GROUP = "live.overview"
"""Channel-layer group of pages that show all fleets; messages: ``{"type": "live.frame", "data": JSON}``."""

OVERVIEW_KEY = "sy:live:overview"
"""Redis string: the last OverviewFrame as JSON."""

CLIENT_KEYS_GROUP = "live.client-keys"
"""Channel-layer group of pages that show the client keys."""

CLIENT_KEYS_KEY = "sy:live:client-keys"
"""Redis string: the last ClientKeysFrame as JSON."""


def fleet_group(name: str) -> str:
    """Channel-layer group of pages that show one fleet."""
    return f"live.fleet.{name}"


def fleet_key(name: str) -> str:
    """Redis string: the last FleetFrame of a fleet as JSON."""
    return f"sy:live:fleet:{name}"


def history_key(name: str) -> str:
    """Redis list, oldest first, 900 entries: Point as JSON, one a second. ``*`` is all fleets together."""
    return f"sy:history:1s:{name}"


def coarse_history_key(name: str) -> str:
    """Redis list, oldest first, 8640 entries: Point as JSON, one each 10 s."""
    return f"sy:history:10s:{name}"


class Point(msgspec.Struct, kw_only=True):
    """One moment of one fleet, for the charts."""

    at: float
    """Unix seconds, the conductor's clock."""
    rps: float
    p50_s: float | None
    p99_s: float | None
    errors_per_s: float
    in_flight: int
    waiting: int = 0
    """Of those in flight, requests that wait for a slot."""
    first_byte_p50_s: float | None = None
    """Percentiles of the time from a request to the first byte of a replica's response, each attempt by
    itself."""
    first_byte_p95_s: float | None = None
    first_byte_p99_s: float | None = None
    output_tokens_per_s: float = 0.0
    """Tokens in responses, as far as proxies could count them. Those of a response count when it ends."""
    p95_s: float | None = None
    first_token_p50_s: float | None = None
    """Percentiles of the time from a request to the first content of its streamed answer, for clients."""
    first_token_p95_s: float | None = None
    first_token_p99_s: float | None = None
    between_tokens_p50_s: float | None = None
    """Percentiles of the time between two tokens of a streamed answer, on average over the answer: each
    answer counts once."""
    between_tokens_p95_s: float | None = None
    between_tokens_p99_s: float | None = None
    queue_p50_s: float | None = None
    """Percentiles of the waits of requests that got a slot from the queue."""
    queue_p95_s: float | None = None
    queue_p99_s: float | None = None
    input_tokens_per_s: float = 0.0
    """Tokens of prompts, as answers report them, or as estimated."""
    retries_per_s: float = 0.0
    ejections_per_s: float = 0.0
    error_reasons: dict[str, float] = {}
    """Reason (:data:`routing.contract.ended_requests.ERROR_REASONS`) → requests a second that ended so."""


class QueueLive(msgspec.Struct, kw_only=True):
    """A fleet's queue: requests that wait for a free slot, and requests that were refused."""

    waiting: int = 0
    size: int = 0
    """How many may wait at all proxies that report together."""
    oldest_wait_s: float = 0.0
    """Wait of the oldest of them."""
    timeout_s: float = 0.0
    """How long each may wait."""
    state: str = ""
    """``refusing`` (some were refused in the last WINDOW_S), ``late`` (the first has waited for half of its
    time or more), ``waiting``, or empty: nobody waits."""
    holds: bool = False
    """Whether requests wait, instead of being refused, while every replica is still loading."""
    queued_per_s: float = 0.0
    """Requests that had to wait, over the last WINDOW_S, as what follows."""
    full_per_s: float = 0.0
    """Refused: the queue was full, or displaced by a higher priority."""
    late_per_s: float = 0.0
    """Refused: they waited too long, or would have."""
    cold_per_s: float = 0.0
    """Refused: every replica was still loading."""
    p50_s: float | None = None
    """Percentile of the waits of requests that got a slot."""
    p99_s: float | None = None
    short_for_s: float = 0.0
    """For how long requests have waited, or been refused, without a break."""


class DrainedAt(msgspec.Struct, kw_only=True):
    """A replica that somebody took out at one proxy, over its admin listener."""

    proxy: str
    expires_in_s: float


class ReportedLive(msgspec.Struct, kw_only=True):
    """A replica's load report. ``None``: it does not report that figure."""

    words: str
    """``12 running, 3 waiting, KV 81 %``; without figures, why."""
    short: str
    """The same in short: ``12 + 3, KV 81 %``; empty: no figures."""
    age_s: float
    running: int | None = None
    waiting: int | None = None
    kv_share: float | None = None
    """Of its KV memory, in use: 0 to 1."""
    memory_share: float | None = None
    """Of its devices' memory, in use: 0 to 1."""
    memory_bytes: int | None = None
    utilization: float | None = None
    requests_per_s: float | None = None
    problem: str = ""
    """Why there are no figures; empty: there are some."""


class LearnedLive(msgspec.Struct, kw_only=True):
    """How fast a replica is, as all proxies have learned it."""

    times_usual: float
    """Seconds per unit of work, over what is usual in the fleet for a replica of its weight. Drawn to 1, as
    far as the difference may be chance."""
    error: float
    """Standard error of that, as a factor of at least 1."""
    request_s: float
    """Seconds that a request of mean size takes there."""
    requests: float
    """Evidence in requests of mean size, each counting less as it ages."""
    is_known: bool
    """Whether that is enough to tell; otherwise it is taken to be nearly as its fleet, for it was not asked
    lately."""


class ServesLive(msgspec.Struct, kw_only=True):
    """How a fleet's replicas serve what is there at once."""

    kind: str
    """``slots``, ``batches`` or ``between``."""
    basis: str
    """``stated`` (by the policy), ``learned`` or ``assumed`` (from the protocol and the probe's preset)."""
    words: str
    """The kind, for people."""
    how_known: str
    """The basis, for people, with what was measured."""
    growth: float
    """Factor by which a unit of work takes longer where twice as many requests are in flight, as learned."""
    growth_error: float
    """Its standard error, as a factor of at least 1."""
    batching: float
    """How far replicas are taken for batching servers: 0 (they have slots) to 1."""


class PredictedLive(msgspec.Struct, kw_only=True):
    """How far predictions of one kind were off, over all workers since they began."""

    compared: int
    """Requests: a sample."""
    error_percent: float
    """Median error of the predicted time, in percent of what it took."""
    within_percent: float
    """How many ended within the interval that was predicted for 80 % of them."""


class PredictionsLive(msgspec.Struct, kw_only=True):
    """How good a fleet's predictions are."""

    completion: PredictedLive
    first_token: PredictedLive | None
    """``None``: no stream has told its tokens."""


class StayingLive(msgspec.Struct, kw_only=True):
    """Requests in flight that cannot be moved."""

    reason: str
    """Of :data:`routing.contract.moving.STAYS`."""
    requests: int
    words: str


class MovingLive(msgspec.Struct, kw_only=True):
    """What of a replica's requests in flight other replicas could go on with, and what they have taken."""

    movable: int
    """They could go on with these, once they have room."""
    movable_prompt_tokens: int
    """Prompt tokens that they would have to read for that, as estimated."""
    staying: list[StayingLive]
    """The most frequent reason first."""
    moved: int
    """Since the replica is to be free."""
    moved_prompt_tokens: int


class ReplicaLive(msgspec.Struct, kw_only=True):
    name: str
    eligible: bool
    state: str
    """The one word shown: ready, checking, unready, down, draining, maintenance or ejected."""
    why: str
    """What keeps it out, or since when it is in, in plain words."""
    admin_state: str
    health: str
    ejected: bool
    weight: float
    rps: float
    share_percent: float
    in_flight: int
    max_concurrency: int | None
    p50_s: float | None
    p99_s: float | None
    errors_per_s: float
    seconds_per_work: float | None
    p95_s: float | None = None
    first_token_p50_s: float | None = None
    """From pick to the first content of streamed answers."""
    first_token_p99_s: float | None = None
    between_tokens_p50_s: float | None = None
    between_tokens_p99_s: float | None = None
    input_tokens_per_s: float = 0.0
    output_tokens_per_s: float = 0.0
    failures: dict[str, int] = {}
    """Outcome → failed attempts within the last WINDOW_S."""
    learned: LearnedLive | None = None
    """How fast it is beside its fleet; ``None``: not learned yet."""
    drained_by_hand: list[DrainedAt] = []
    """At which proxies somebody took it out there, and for how long still."""
    no_credential: str = ""
    """Why proxies cannot read its credential, for people; empty: they can, or it has none."""
    locked_out: bool = False
    """Whether none can."""
    drained_everywhere: bool = False
    """Whether these are all that route for the fleet."""
    move: bool = False
    """Whether its streams are moved to other replicas, while it is taken out."""
    moving: MovingLive | None = None
    """``None``: nobody looks, for its fleet does not continue streams and it is not to be free."""
    memory_short: str = ""
    """What its accelerators lack for requests at this moment, in words; empty: nothing."""
    doubt: str = ""
    """Why it is tried out, gets no more than its share, or is just back; empty: it is as any other."""
    reported: ReportedLive | None = None
    """Its last report of its own load; ``None``: it gives none, or has not for a while."""
    expected_in_s: float | None = None
    """About how long until it is ready, while it starts; 0: it takes longer than it was expected to;
    ``None``: it does not start, or no start has been seen."""


class ColdLive(msgspec.Struct, kw_only=True):
    """Cold start: no replica is eligible, because all are still loading."""

    loading: int
    """Replicas that are."""
    expected_in_s: float | None
    """Until the first of them is ready, as :attr:`ReplicaLive.expected_in_s`."""


class AffinityLive(msgspec.Struct, kw_only=True):
    """Requests per second with an affinity key, by where they were sent."""

    kept_per_s: float = 0.0
    """Sent to the replica of their affinity key."""
    spilled_per_s: float = 0.0
    """Sent elsewhere: that replica had too much in flight, or no free slot."""
    new_per_s: float = 0.0
    """Their affinity key had no replica yet."""


class SiteLive(msgspec.Struct, kw_only=True):
    """Attempts a second of the proxies of one site, where sites matter."""

    name: str
    stayed_per_s: float = 0.0
    """At replicas of the site, or of none."""
    spilled_per_s: float = 0.0
    """At those of other sites."""


class FallbackLive(msgspec.Struct, kw_only=True):
    """Requests of a fleet that another one serves in its place."""

    fleet: str
    """That other one."""
    per_s: float = 0.0
    causes: dict[str, int] = {}
    """Cause → how many since the proxies' workers began."""


class FleetSummary(msgspec.Struct, kw_only=True):
    name: str
    protocol: str
    aliases: list[str]
    adapters: list[str]
    strategy: str
    revision: int
    rps: float
    p50_s: float | None
    p99_s: float | None
    error_percent: float
    output_tokens_per_s: float = 0.0
    """As :attr:`Point.output_tokens_per_s`, and so are the next."""
    input_tokens_per_s: float = 0.0
    retries_per_s: float = 0.0
    ejections_per_s: float = 0.0
    first_token_p50_s: float | None = None
    first_token_p99_s: float | None = None
    between_tokens_p50_s: float | None = None
    error_reasons: dict[str, float] = {}
    in_flight: int
    """Begun and not ended, waiting ones among them."""
    queue: QueueLive
    affinity: AffinityLive
    sites: list[SiteLive] = []
    """Those whose proxies sent something, by name."""
    fallbacks: list[FallbackLive] = []
    """Where its requests have gone that it could not serve, by name. They are in both fleets' rates, and once
    in those of all fleets."""
    no_fallback: dict[str, int] = {}
    """What kept requests from going there → how many since the proxies' workers began
    (:data:`routing.contract.telemetry.NO_FALLBACK`)."""
    capacity: int | None
    """Sum of the eligible replicas' max_concurrency; ``None`` when one has none."""
    replicas: int
    eligible: int
    taking: int
    """The eligible ones whose weight is above 0. With none, the fleet's requests are answered with 503, or
    they are covered."""
    covered: bool = False
    """Whether another fleet, which has replicas that take requests, gets those that find none here."""
    cold: ColdLive | None
    states: dict[str, int]
    """State word → number of replicas in it."""
    would_refuse: int | None = None
    """Requests since the proxies' workers began that ``expose: inference`` would refuse; ``None``: the fleet
    says what it exposes."""
    desired_replicas: int | None = None
    """How many it needs, by the scaling signal; ``None``: that cannot be told."""
    desired_age_s: float = 0.0
    """How old that is, while it cannot be told anew."""
    unserved_adapters: list[str] = []
    """Those that no replica serves: requests for them are answered with 503."""


class WorkerLive(msgspec.Struct, kw_only=True):
    name: str
    age_s: float
    """Since its last report."""
    applied: str
    behind: bool
    """Whether some fleet's newer snapshot is not applied yet."""
    refused: str
    redis_ok: bool
    cpu_percent: float
    clients: int
    strategy_trouble: str = ""
    """Which strategies of other packages have failed, in which fleets."""


class MeasuredLive(msgspec.Struct, kw_only=True):
    """What an exporter says of a device. ``None``: it does not say that."""

    age_s: float
    used_bytes: int | None
    memory_bytes: int | None
    utilization_percent: float | None
    temperature_c: float | None
    power_w: float | None
    trouble: str
    """Errors and lower clocks, in words; empty: none."""
    is_defect: bool
    """Whether that means that the device is likely broken."""
    memory_warning: str
    """Where its memory in use parts from what is declared, in words; empty: it does not."""


class HostLive(msgspec.Struct, kw_only=True):
    """What an exporter says of its host. ``None``: it does not say that."""

    name: str
    exporter: str
    age_s: float
    problem: str
    """Why it says nothing, in words; empty: it does."""
    devices: int
    """Accelerators that it tells of."""
    memory_bytes: int | None
    available_bytes: int | None
    load_1: float | None
    processors: int


class AcceleratorLive(msgspec.Struct, kw_only=True):
    """One device, shared by replicas of any fleet."""

    name: str
    memory_bytes: int
    usable_bytes: int
    """Its memory less the headroom."""
    held_bytes: int
    """What replicas hold on it all the time, as they are registered: weights above all."""
    leased_bytes: int | None
    """Reserved by requests in flight; ``None``: no proxy reports."""
    lease_waits: int
    """Requests of the last WINDOW_S that waited, or went elsewhere, because memory was short there."""
    measured: MeasuredLive | None = None
    """``None``: no exporter tells of it."""


class OverviewFrame(msgspec.Struct, kw_only=True):
    sequence: int
    at: float
    table: str
    """``epoch:version`` of the manifest."""
    total: Point
    replicas: int
    eligible: int
    error_percent: float
    refused_per_s: float
    """Requests that proxies refused before a fleet was found (no client key that opens it, a name that no
    fleet bears, malformed), over the last WINDOW_S. In no other number."""
    fleets: list[FleetSummary]
    workers: list[WorkerLive]
    accelerators: list[AcceleratorLive] = []
    hosts: list[HostLive] = []
    """Those that have an exporter, one entry for each of these."""


class SecondAttemptsLive(msgspec.Struct, kw_only=True):
    """Requests that were sent to a second replica too, because the first had sent nothing, since the workers
    began."""

    results: dict[str, int]
    """Result → how many: ``won``, ``lost``, ``failed``, ``cancelled``."""
    not_sent: dict[str, int]
    """What kept requests from it → how many: ``queue``, ``busy``, ``budget``, ``attempts``,
    ``no_replica``."""
    limit_s: float | None
    """After how many seconds without content that is done, the median of the workers; ``None``: that is not
    learned yet, or there is no such limit."""


class ErrorReasonLive(msgspec.Struct, kw_only=True):
    """Requests of a fleet that ended with an error, for one reason."""

    reason: str
    """Of :data:`routing.contract.ended_requests.ERROR_REASONS`."""
    words: str
    """The same for people."""
    requests: int
    """Within the last WINDOW_S."""


class FleetFrame(msgspec.Struct, kw_only=True):
    sequence: int
    at: float
    table: str
    summary: FleetSummary
    point: Point
    replicas: list[ReplicaLive]
    workers: int
    workers_current: int
    """How many of the live workers route from this fleet's newest snapshot."""
    serves: ServesLive | None = None
    """How its replicas serve under load; ``None``: no proxy tells."""
    predictions: PredictionsLive | None = None
    """``None``: none was compared yet."""
    second_attempts: SecondAttemptsLive | None = None
    """``None``: no worker reports."""
    scaling: ScalingSignal | None = None
    """How many replicas it needs; ``None``: no worker reports."""
    errors: list[ErrorReasonLive] = []
    """The most frequent first."""


class ClientKeyLive(msgspec.Struct, kw_only=True):
    id: int
    name: str
    rps: float = 0.0
    """Of all requests that came with it, those that its limits refused included."""
    limited_per_s: float = 0.0
    """Refused by its own limits."""
    in_flight: int = 0
    """With those that wait."""
    requests: int = 0
    """Within the last 60 s, without those that its limits refused."""
    tokens: int = 0
    """Within the last 60 s: prompt and output tokens of answers that have ended."""
    at_limit: list[str] = []
    """Limits that are used up, or that refused requests within the last WINDOW_S."""
    errors: int = 0
    """Within the last 60 s: requests that failed, with a 5xx or an answer that broke off."""
    p50_s: float | None = None
    """Percentiles of the last 60 s: from a request to the end of its answer."""
    p95_s: float | None = None
    p99_s: float | None = None
    first_token_p95_s: float | None = None
    """The same to the first content of a streamed answer."""


class ClientKeysFrame(msgspec.Struct, kw_only=True):
    sequence: int
    at: float
    table: str
    """``epoch:version`` of the manifest."""
    workers: int
    keys: list[ClientKeyLive]
    """Those in force that have been used within the last 60 s; all numbers of the others are 0."""
