"""A fleet's routing policy: strategy, time limits, retries, ejection, objectives.

These structs are used as they stand in the fleet file, in policy revisions and in the routing
table, so that a default is written down once, here, and nowhere else.
"""

from typing import Literal

import msgspec

StrategyParameter = bool | int | float | str
ReplaySafe = Literal["auto", "always", "never"]
HalfClose = Literal["abort", "allow"]
Cold = Literal["refuse", "hold"]
QueueAt = Literal["proxy", "replica"]
Prefer = Literal["site", "none"]
Serves = Literal["auto", "slots", "batch"]
Continue = Literal["auto", "off"]
FirstTokenLimit = Literal["auto", "off"]
FallbackCause = Literal[
    "no_eligible_replica",
    "no_place",
    "replicas_failed",
    "first_token",
    "deadline",
    "context_length_exceeded",
]


_USUAL_CAUSES: tuple[FallbackCause, ...] = (
    "no_eligible_replica",
    "no_place",
    "replicas_failed",
    "first_token",
)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of one request, in seconds, and the rate that its body must keep."""

    head_s: float = 10.0
    """Receiving the request head, from its first byte to its last."""
    body_grace_s: float = 25.0
    """Receiving the request body: this long, plus 1 s for each ``body_min_bytes_per_s`` bytes of it."""
    body_min_bytes_per_s: float = 1024.0
    connect_s: float = 1.0
    """Opening a connection to a replica."""
    first_byte_s: float = 60.0
    """Time to the first content of a streamed response. Its head and comments are none."""
    idle_s: float = 60.0
    """No data from the replica after its response has begun, but comments; for a WebSocket, in either
    direction."""
    stall_s: float = 30.0
    """Requests in flight and no data from the replica on any of them: the replica is ejected."""
    total_s: float = 600.0
    """The whole request, retries included. Not of a WebSocket."""
    websocket_s: float = 3600.0
    """Age at which a WebSocket is closed; 0: no limit."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one request."""

    max_body_bytes: int = 64 << 20
    """Chunk framing not counted. The search for the model in a body has the proxy's own limit as well."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """When a request is retried at another replica. Only before the client got any byte of a response."""

    budget_percent: float = 20.0
    """Retries of requests already sent: at most this share of all requests, plus 2 a second. 0: none."""
    replay_safe: ReplaySafe = "auto"
    """``auto``: inference calls that keep no state may be sent twice; ``always``, ``never``: all, none."""
    statuses: list[int] = msgspec.field(default_factory=lambda: [429, 500, 502, 503])
    """Responses with these are discarded and the request retried, if it may be sent twice; after 500 once."""


class Ejection(msgspec.Struct, frozen=True, kw_only=True):
    """Outlier ejection: when failures in live traffic take a replica out, and for how long."""

    consecutive_failures: int = 5
    base_s: float = 5.0
    """Length of the first ejection. Doubles with each further one, jittered by 20 %, up to 300 s."""
    max_ejected_percent: float = 50.0


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The queue: requests wait in it while no replica has a free slot."""

    size: int = 256
    """Most waiting requests on one host, all workers together; 0: no queue."""
    timeout_s: float = 10.0
    """Longest wait of a request; then it gets 503."""
    cold: Cold = "refuse"
    """While every replica is still loading: ``refuse`` sends 503 at once, ``hold`` lets requests wait, also
    for the first replica of a fleet that has none."""
    cold_timeout_s: float = 300.0
    """Longest wait for the first replica with ``hold``."""
    at: QueueAt = "proxy"
    """Where requests above ``max_concurrency`` wait. ``proxy``: here, so it is a limit. ``replica``: in the
    server's own queue, so it only says how many requests the server processes in parallel."""


class Locality(msgspec.Struct, frozen=True, kw_only=True):
    """Preference for replicas of the proxy's own site (:mod:`routing.balancing.locality.spillover`)."""

    prefer: Prefer = "site"
    """``none``: all sites alike. Without effect in a proxy that has no site."""
    spill_above: float = 0.8
    """Load of the own site, 1.0 being full, above which part of its requests goes to other sites."""

    def when_asked(self, site: str, own: str) -> str:
        """When a replica of another site gets requests, for people."""
        return f"at {site}: asked while {own} is more than {100 * self.spill_above:g} % busy"


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Another fleet of the same protocol, for requests that this one cannot serve."""

    fleet: str
    """Its name."""
    causes: list[FallbackCause] = msgspec.field(default_factory=lambda: [*_USUAL_CAUSES])
    """``no_eligible_replica``: none takes requests, all of them loading included. ``no_place``: the queue
    refused it, or it waited there in vain. ``replicas_failed``: the attempts at replicas failed.
    ``first_token``: nothing came of a stream within the time for it. ``deadline``: by predictions it would
    be late at each replica. ``context_length_exceeded``: the replica says that it is too long."""
    included: bool = False
    """Whether a client key for this fleet is enough; else it has to be for both."""


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Service-level objectives. Streams are also routed by ``first_token_s``, besides the strategy."""

    latency_s: float | None = None
    """Within so many seconds a request should be served; ``None``: no objective."""

    first_token_s: float | None = None
    """Within so many seconds of a request the first token of its stream should come; ``None``: whenever."""
    percentile: float = 99.0
    """How many percent of requests should be within these two."""
    availability_percent: float | None = None
    """How many percent of requests should not fail; ``None``: no objective."""
    window_days: float = 30.0
    """Over how long these are to hold."""


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """What the scaling signal goes by: how many replicas it says the fleet needs. Nothing is scaled here."""

    target_percent: float = 75.0
    """How many of a replica's places, or how much of its KV memory, is to be in use."""
    min_replicas: int = 0
    max_replicas: int | None = None
    start_s: float = 60.0
    """How far to look ahead, while it is not known how long a replica takes to start."""
    scale_down_after_s: float = 120.0
    """Fewer are said once no more were needed for so long."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How requests of one fleet are routed: strategy, limits, retries, ejection, queue."""

    strategy: str = "least_expected_work"
    parameters: dict[str, StrategyParameter] = {}
    max_concurrency: int | None = None
    """Most requests in flight at a replica; ``None``: no fixed number, as for a batching server."""
    serves: Serves = "auto"
    """How a replica serves what is there at once. ``slots``: up to ``max_concurrency`` independently of each
    other. ``batch``: each slows the others. ``auto``: it is learned."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    retries: Retries = Retries()
    ejection: Ejection = Ejection()
    slow_start_s: float = 30.0
    half_close: HalfClose = "abort"
    """What a client's half-close means: it has left, or it still waits for its response."""
    continuation: Continue = "off"
    """Streamed answers that break off: ``auto`` has another replica go on, where that is possible."""
    first_token_limit_s: float | FirstTokenLimit = "off"
    """A streamed request whose replica has sent nothing of an answer for so many seconds is sent to a second
    one as well. ``auto``: the limit is learned; ``off``: none is sent twice."""
    plain_limit_factor: float | None = None
    """The same of one that is not streamed, after so many times its predicted completion; ``None``: never."""
    fallback: list[Fallback] = []
    """Fleets that serve requests which this one cannot, in order."""
    fallback_budget_percent: float = 100.0
    """Requests that fall back: at most this share of all requests, plus 2 a second. 0: none."""
    queue: Queue = Queue()
    locality: Locality = Locality()
    slo: Slo = Slo()
    scaling: Scaling = Scaling()
