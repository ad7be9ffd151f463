"""Replica health: the state that probes found.

It is a table of its own, so that probes never write the rows that operators edit.
"""

from django.db import models

from controlplane.models.replica import Replica


class ReplicaHealth(models.Model):
    class State(models.TextChoices):
        CHECKING = "checking", "checking"
        READY = "ready", "ready"
        UNREADY = "unready", "unready"
        DOWN = "down", "down"

    replica = models.OneToOneField(Replica, on_delete=models.CASCADE, related_name="health")
    state = models.CharField(max_length=10, choices=State.choices, default=State.CHECKING)
    reason = models.CharField(max_length=300, blank=True, default="not probed yet")
    has_passed = models.BooleanField(default=False)
    since = models.DateTimeField(auto_now_add=True)
    """When ``state`` was entered. Only transitions write this row."""
    starting = models.BooleanField(default=True)
    """Until it is ready: whether ``since`` is when it began to start, as far as probes could see."""
    startup_s = models.FloatField(null=True, blank=True)
    """How long its last start took, from there to ``ready``; ``None``: none has been seen."""

    flap_penalty = models.FloatField(default=0.0)
    """As of ``lost_at`` (:mod:`routing.contract.flap_damping`)."""
    lost_at = models.DateTimeField(null=True, blank=True)
    """When it was last no longer ready; ``None``: it never was, since it has this URL."""

    def __str__(self) -> str:
        return f"{self.replica}: {self.state}"
