"""Validation rules of a client key's limits: the same in a fleet file and over the API."""

from collections.abc import Mapping
from typing import Final

from routing.contract.field_rules import Choice, Rule, count
from routing.contract.priority import PRIORITIES

MOST_REQUESTS: Final = 1_000_000_000
MOST_IN_FLIGHT: Final = 1_000_000
MOST_TOKENS: Final = 100_000_000_000

KEY_LIMITS: Final[Mapping[str, Rule]] = {
    "priority": Choice(
        words="Priority class of its requests in the queue: the highest goes first.",
        options=PRIORITIES,
    ),
    "requests_per_minute": count(
        "Requests of the key within a minute, over all fleets; more are refused. Not set: no limit.",
        MOST_REQUESTS,
        nullable=True,
    ),
    "max_concurrency": count(
        "Requests of the key in flight and waiting at one time; more are refused. Not set: no limit.",
        MOST_IN_FLIGHT,
        nullable=True,
    ),
    "tokens_per_minute": count(
        "Prompt and output tokens of the key within a minute, as answers report them; while more were used, "
        "requests are refused. Not set: no limit.",
        MOST_TOKENS,
        nullable=True,
    ),
}
"""By the names of :class:`routing.contract.table.KeyLimits`."""
