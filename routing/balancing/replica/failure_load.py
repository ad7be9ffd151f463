"""Failure load: failures that still count as requests in flight at one replica.

Written by :mod:`routing.balancing.outlier.failure_load`, which has the theory, by way of
:func:`routing.balancing.replica.sibling_load.count_failures`.
"""

from collections import deque


class FailureLoad:
    """Of one replica."""

    __slots__ = ("ends", "requests")

    def __init__(self) -> None:
        self.requests = 0
        """How many failures count now."""
        self.ends: deque[tuple[float, int]] = deque()
        """Until when (monotonic seconds), and how many of them."""

    def __repr__(self) -> str:
        return f"<FailureLoad {self.requests} requests>"
