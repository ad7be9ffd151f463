"""Sampler (head sampling): which requests are recorded as traces, decided when a request begins.

A client may ask for its request to be recorded (the sampled flag of ``traceparent``), and whoever may send
requests may ask for all of them. So both kinds are bounded, each by a token bucket of its own: traces that
begin here, and those that clients ask for. Clients that ask for many take nothing from the first kind.

Source: OpenTelemetry's samplers ``parentbased_…`` and ``traceidratio``, and of their bound the rate-limiting
sampler of Jaeger.
"""

from __future__ import annotations

from routing.contract.tracing import TracingSettings
from routing.http.trace_context import is_sampled, trace_id

_IDS = 1 << 64
"""A ratio is of the last 64 bits of ids, as in OpenTelemetry's own sampler."""


class Sampler:
    """Of one worker. ``over_limit``: traces that were to be recorded and were not."""

    def __init__(self, settings: TracingSettings, now: float) -> None:
        self._follows_parent = settings.follows_parent
        self._below = round(settings.ratio * _IDS)
        self._begun = TokenBucket(settings.traces_per_s, now)
        self._asked = TokenBucket(settings.traces_per_s, now)
        self.over_limit = 0

    def records_begun(self, now: float) -> bool:
        """Whether a trace is recorded that begins here, and was drawn for it."""
        return self._take(self._begun, now)

    def records_asked(self, of_client: bytes, now: float) -> bool:
        """Whether a client's is. ``of_client``: its valid ``traceparent``."""
        if self._follows_parent:
            is_wanted = is_sampled(of_client)
        else:
            is_wanted = int(trace_id(of_client, b"")[16:], 16) < self._below
        return is_wanted and self._take(self._asked, now)

    def _take(self, bucket: TokenBucket, now: float) -> bool:
        if bucket.take(now):
            return True
        self.over_limit += 1
        return False


class TokenBucket:
    """So many a second; after a quiet time twice as many at once."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s = per_s
        self._most = max(2 * per_s, 1.0) if per_s else 0.0
        self._left = self._most
        self._at = now

    def take(self, now: float) -> bool:
        """Whether there is one."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
