"""Rate limit response: 429 for a client whose key has used up one of its limits, with Retry-After.

The fields are those of OpenAI's and of Anthropic's API, which clients know. Sources:
platform.openai.com/docs/guides/rate-limits, docs.claude.com/en/api/rate-limits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil

from routing.proxy.errors import LocalReply
from routing.shared.key_quota import CONCURRENCY, REQUESTS, TOKENS, LimitStatus, QuotaExceeded

_KINDS = {REQUESTS: "requests", TOKENS: "tokens"}
"""What both APIs call the limits that they have too."""
_WORDS = {
    REQUESTS: "{0} requests per minute, and {1} were accepted within the last minute",
    TOKENS: "{0} tokens per minute, and {1} were used within the last minute or are reserved",
    CONCURRENCY: "{0} concurrent requests, and {1} are in flight or waiting",
}


def over_limit_reply(exceeded: QuotaExceeded, protocol: str) -> LocalReply:
    """The reply to a request that exceeds a limit of its key. ``protocol``: the client's."""
    by = exceeded.by
    # Rounded up: after this many whole seconds the limit allows a request.
    wait_s = max(1, ceil(by.wait_s))
    when = "retry when one has ended" if by.limit == CONCURRENCY else f"retry in {wait_s} s"
    words = f"this client key allows {_WORDS[by.limit].format(by.allowed, by.used)}: {when}"
    failure = LocalReply(429, "rate_limit_exceeded", words, wait_s)
    failure.kind = _KINDS.get(by.limit, "requests")
    of_anthropic = protocol == "anthropic"
    failure.fields = b"".join(
        _of_anthropic(status) if of_anthropic else _of_openai(status)
        for status in exceeded.statuses
        if status.limit in _KINDS
    )
    return failure


def _of_openai(status: LimitStatus) -> bytes:
    kind = _KINDS[status.limit]
    left = max(0, status.allowed - status.used)
    return (
        f"\r\nx-ratelimit-limit-{kind}: {status.allowed}"
        f"\r\nx-ratelimit-remaining-{kind}: {left}"
        f"\r\nx-ratelimit-reset-{kind}: {ceil(status.resets_s)}s"
    ).encode()


def _of_anthropic(status: LimitStatus) -> bytes:
    kind = _KINDS[status.limit]
    left = max(0, status.allowed - status.used)
    resets = datetime.now(UTC) + timedelta(seconds=ceil(status.resets_s))
    return (
        f"\r\nanthropic-ratelimit-{kind}-limit: {status.allowed}"
        f"\r\nanthropic-ratelimit-{kind}-remaining: {left}"
        f"\r\nanthropic-ratelimit-{kind}-reset: {resets:%Y-%m-%dT%H:%M:%SZ}"
    ).encode()
