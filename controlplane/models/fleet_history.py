"""Fleet history: a fleet's measures, five minutes a row, for charts and objectives over weeks."""

from django.db import models

from controlplane.models.fleet import Fleet

SLOT_S = 300
"""Seconds that one row is about."""


class FleetHistory(models.Model):
    fleet = models.ForeignKey(Fleet, on_delete=models.CASCADE, related_name="history")
    at = models.DateTimeField()
    """When its five minutes ended: a multiple of them since 1970."""
    values = models.TextField()
    """JSON array: the same as Unix seconds, then the array of numbers
    (:class:`controlplane.telemetry.measures.HistoryRow`)."""
    ended = models.TextField(default="null")
    """JSON: exact totals of the requests that ended in them (:class:`routing.contract.ended_requests`)."""
    sketches = models.TextField(default="{}")
    """JSON: by kind, for percentiles of longer times
    (:func:`controlplane.telemetry.measures.packed_sketches`)."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["fleet", "at"], name="one_history_row_a_slot")]

    def __str__(self) -> str:
        return f"{self.fleet_id} at {self.at:%Y-%m-%d %H:%M}"
