"""Outcome totals: how often requests at one replica ended in a rare way, since the worker started.

Written by :mod:`routing.balancing.attempt.attempt`; read by the report alone.
"""

from typing import Any


class OutcomeTotals:
    """Of one replica. Successes and failures are in the replica itself: outlier detection reads them."""

    __slots__ = ("cancelled", "client_errors", "rejected")

    def __init__(self) -> None:
        self.rejected = 0
        self.cancelled = 0
        self.client_errors = 0

    def counts(self) -> dict[str, Any]:
        """By name, as :class:`routing.contract.telemetry.ReplicaCounters` has them."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __repr__(self) -> str:
        return f"<OutcomeTotals {self.rejected} rejected, {self.cancelled} cancelled>"
