"""Event log: one row for each thing that happened to a fleet or replica, in words, for the timeline."""

from django.db import models

from controlplane.models.fleet import Fleet
from controlplane.models.replica import Replica


class Event(models.Model):
    class Kind(models.TextChoices):
        HEALTH = "health", "health"
        EJECTION = "ejection", "ejection"
        ADMIN = "admin", "admin"
        POLICY = "policy", "policy"
        LIMIT = "limit", "limit"
        SYSTEM = "system", "system"
        ALERT = "alert", "alert"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    state = models.CharField(max_length=20, blank=True, default="")
    """State word the page shows beside the text: ready, down, draining, ejected …"""
    fleet = models.ForeignKey(Fleet, null=True, blank=True, on_delete=models.SET_NULL, related_name="events")
    replica = models.ForeignKey(
        Replica, null=True, blank=True, on_delete=models.SET_NULL, related_name="events"
    )
    fleet_name = models.CharField(max_length=63, blank=True, default="")
    """Outlives the fleet, so that the timeline still says what became of it."""
    replica_name = models.CharField(max_length=63, blank=True, default="")
    revision = models.PositiveIntegerField(null=True, blank=True)
    """The policy revision it speaks of, which is the fleet's."""
    text = models.CharField(max_length=400)
    actor = models.CharField(max_length=150, blank=True, default="")
    write = models.CharField(max_length=32, blank=True, default="")
    """Leads to the audit entries of the same transaction (:class:`AuditEntry`)."""
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["-at", "-id"], name="event_newest"),
            models.Index(fields=["fleet_name", "-at", "-id"], name="event_newest_of_fleet"),
        ]

    def __str__(self) -> str:
        return self.text
