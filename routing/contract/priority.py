"""Priority classes of requests: which are served first from the queue."""

from typing import Final, Literal, get_args

Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""The first is served first."""
DEFAULT_PRIORITY: Final[Priority] = "normal"


def rank_of(priority: Priority) -> int:
    """Its place in :data:`PRIORITIES`, from 0."""
    return PRIORITIES.index(priority)


DEFAULT_RANK: Final = rank_of(DEFAULT_PRIORITY)
