"""Objective count: requests of a fleet within five minutes, and how many of them met each objective."""

from django.db import models

from controlplane.models.fleet import Fleet


class ObjectiveCount(models.Model):
    fleet = models.ForeignKey(Fleet, on_delete=models.CASCADE, related_name="objective_counts")
    at = models.DateTimeField()
    """When the five minutes ended."""
    counts = models.JSONField()
    """Objective with its limit (``latency:2``) → [good, all]."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["fleet", "at"], name="objective_count_once")]
        indexes = [models.Index(fields=["at"], name="objective_count_oldest")]

    def __str__(self) -> str:
        return f"{self.fleet_id} until {self.at:%F %T}"
