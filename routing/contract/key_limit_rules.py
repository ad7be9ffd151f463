"""Validation rules of a client key's limits: the same in a fleet file and over the API."""

from collections.abc import Mapping
from typing import Final

from routing.contract.field_rules import Choice, Number, Rule, count
from routing.contract.priority import PRIORITIES

MOST_REQUESTS: Final = 1_000_000_000
MOST_IN_FLIGHT: Final = 1_000_000
MOST_TOKENS: Final = 100_000_000_000

KEY_LIMITS: Final[Mapping[str, Rule]] = {
    "priority": Choice(
        words="Priority class of the key's requests in the queue. The highest is served first.",
        options=PRIORITIES,
    ),
    "weight": Number(
        words="Share of the queue, within its class, relative to other clients, which have weight 1.",
        minimum=0.01,
        maximum=100,
    ),
    "requests_per_minute": count(
        "Rate limit: requests per minute, all fleets together; more get 429. Not set: no limit.",
        MOST_REQUESTS,
        nullable=True,
    ),
    "max_concurrency": count(
        "Most requests in flight and waiting; more get 429. Not set: no limit.",
        MOST_IN_FLIGHT,
        nullable=True,
    ),
    "tokens_per_minute": count(
        "Rate limit: prompt and output tokens per minute, as responses report them. Above it: 429. "
        "Not set: no limit.",
        MOST_TOKENS,
        nullable=True,
    ),
}
"""By the names of :class:`routing.contract.table.KeyLimits`."""
