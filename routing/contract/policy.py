"""A fleet's routing policy: strategy, time limits, retries, ejection, and what is reserved.

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


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of one request, in seconds, and the rate that its body must keep."""

    head_s: float = 10.0
    """The request's head, from its first byte to its last."""
    body_grace_s: float = 25.0
    """The request's body may take this long, and a second more for each ``body_min_bytes_per_s`` of it."""
    body_min_bytes_per_s: float = 1024.0
    connect_s: float = 1.0
    """Opening a connection to a replica."""
    first_byte_s: float = 60.0
    """First response byte, for answers that the client asked to have streamed."""
    idle_s: float = 60.0
    """Silence between two pieces of a response once it has begun; of a WebSocket, in both directions."""
    stall_s: float = 30.0
    """Requests in flight and nothing heard from the replica on any of them: the replica is ejected."""
    total_s: float = 600.0
    """The whole request, retries included."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one request."""

    max_body_bytes: int = 64 << 20
    """Without chunked coding. A body that names its model is searched up to the proxy's own bound besides."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """When a request goes to another replica, as long as the client has seen nothing of an answer."""

    budget_percent: float = 20.0
    """Retries of what was sent may add this share of requests, plus a constant of 3; 0: none at all."""
    replay_safe: ReplaySafe = "auto"
    """``auto``: inference calls that keep no state are replayed; ``always``/``never`` decide for all."""
    statuses: list[int] = []
    """Answers of a replica that another one is asked instead of, where the request may be sent twice."""


class Ejection(msgspec.Struct, frozen=True, kw_only=True):
    """When live traffic takes a replica out, and for how long."""

    consecutive_failures: int = 5
    base_s: float = 5.0
    """First ejection; doubles with each one that follows, jittered by 20 %, at most 300 s."""
    max_ejected_percent: float = 50.0


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request waits while no replica has a place for it."""

    size: int = 256
    """Requests that wait at one time on one host, in all its workers; 0: none waits."""
    timeout_s: float = 10.0
    """How long a request may wait; then it is answered 503."""
    cold: Cold = "refuse"
    """While every replica is still loading: ``refuse`` answers at once, ``hold`` lets requests wait."""
    cold_timeout_s: float = 300.0
    """How long ``hold`` lets a request wait for the first replica."""
    at: QueueAt = "proxy"
    """Where a request waits while replicas work on as many as ``max_concurrency`` says: here, which makes it
    a limit, or at ``replica``, which has a queue of its own: then it only says how many are worked on."""


class Locality(msgspec.Struct, frozen=True, kw_only=True):
    """Preference for replicas of the proxy's own site (:mod:`routing.balancing.locality.spillover`)."""

    prefer: Prefer = "site"
    """``none``: all sites alike. Without effect for a proxy that has no site."""
    spill_above: float = 0.8
    """How busy the own site may be, 1.0 being full, before part of its requests goes to others."""

    def when_asked(self, site: str, own: str) -> str:
        """When a replica of a site is asked by proxies of others, in words."""
        return f"at {site}: asked while {own} is more than {100 * self.spill_above:g} % busy"


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """A service-level objective. Reserved: not implemented yet."""

    latency_s: float | None = None
    first_token_s: float | None = None
    percentile: float = 99.0
    availability_percent: float = 99.9


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How one fleet picks a replica and what surrounds the pick."""

    strategy: str = "least_expected_work"
    parameters: dict[str, StrategyParameter] = {}
    max_concurrency: int | None = None
    """Requests a replica works on at once, more wait; ``None``: a batching server with no fixed number."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    retries: Retries = Retries()
    ejection: Ejection = Ejection()
    slow_start_s: float = 30.0
    half_close: HalfClose = "abort"
    """What a client's ending its own direction means: that it has left, or that it waits for its answer."""
    queue: Queue = Queue()
    locality: Locality = Locality()
    slo: Slo = Slo()


RESERVED_POLICY_FIELDS = frozenset({"slo"})
"""Agreed and stored, not yet implemented: setting one in a file or by the API is an error."""
