"""Outcome totals: how often requests at one replica ended in a rare way, since the worker started.

Written by :mod:`routing.balancing.attempt.attempt`; read by the report alone.
"""


class OutcomeTotals:
    """Of one replica. Successes and failures are in the replica itself: outlier detection reads them."""

    __slots__ = ("cancelled", "client_errors", "rejected")

    def __init__(self) -> None:
        self.rejected = 0
        self.cancelled = 0
        self.client_errors = 0

    def __repr__(self) -> str:
        return f"<OutcomeTotals {self.rejected} rejected, {self.cancelled} cancelled>"
