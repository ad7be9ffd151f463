"""Outcome totals: how often requests at one replica ended in a rare way, since the worker started.

Written by :mod:`routing.balancing.attempt.attempt`; read by the report alone.
"""

from typing import Any

from routing.balancing.replica.untracked import Untracked, own


class OutcomeTotals(Untracked):
    """Of one replica. Successes and failures are in the replica itself: outlier detection reads them."""

    rejected: int = 0
    cancelled: int = 0
    client_errors: int = 0
    without_result: int = 0
    truncated: int = 0
    beaten: int = 0
    failed_by: dict[str, int] = own(dict)
    """Failures by outcome."""

    def counts(self) -> dict[str, Any]:
        """By name, as :class:`routing.contract.telemetry.ReplicaCounters` has them."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    def __repr__(self) -> str:
        return f"<OutcomeTotals {self.rejected} rejected, {self.cancelled} cancelled>"
