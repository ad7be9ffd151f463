"""Classes of requests: who is served first where requests wait."""

from typing import Final, Literal, get_args

Priority = Literal["high", "normal", "low"]
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
"""The first is served first."""
DEFAULT_PRIORITY: Final[Priority] = "normal"
