"""Something that happened to a fleet or replica, in words, for the timeline."""

from django.db import models

from controlplane.models.fleet import Fleet
from controlplane.models.replica import Replica


class Event(models.Model):
    class Kind(models.TextChoices):
        HEALTH = "health", "health"
        EJECTION = "ejection", "ejection"
        ADMIN = "admin", "admin"
        POLICY = "policy", "policy"
        SYSTEM = "system", "system"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    state = models.CharField(max_length=20, blank=True, default="")
    """State word the page shows beside the text: ready, down, draining, ejected …"""
    fleet = models.ForeignKey(Fleet, null=True, blank=True, on_delete=models.CASCADE, related_name="events")
    replica = models.ForeignKey(
        Replica, null=True, blank=True, on_delete=models.SET_NULL, related_name="events"
    )
    text = models.CharField(max_length=400)
    actor = models.CharField(max_length=150, blank=True, default="")
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return self.text
