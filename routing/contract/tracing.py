"""Tracing settings: which requests a proxy records as traces (OpenTelemetry)."""

import msgspec


class TracingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one proxy that exports traces."""

    ratio: float = 1.0
    """Share of requests without a context of their own that are recorded; without ``follows_parent`` of all
    requests."""
    follows_parent: bool = True
    """Whether the sampled flag of a client's ``traceparent`` decides about its request."""
    traces_per_s: float = 50.0
    """At most so many are begun by a worker in a second, and as many again that clients ask for."""
