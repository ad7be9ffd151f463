"""Discovery source: what lists replicas of a fleet (a file, DNS, Kubernetes, leases), and how that goes.

State has a table of its own, so that following a source never writes the row that people edit.
"""

import uuid

from django.db import models

from controlplane.models.fleet import Fleet
from controlplane.models.hardware import slug_validator
from controlplane.models.replica import Replica


class DiscoverySource(models.Model):
    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    fleet = models.ForeignKey(Fleet, on_delete=models.CASCADE, related_name="sources")
    name = models.CharField(max_length=63, validators=[slug_validator])
    kind = models.CharField(max_length=20)
    """Which of the groups of :mod:`routing.contract.fleet_file.sources.source_rules` ``settings`` has."""
    settings = models.JSONField()
    """Checked by those rules; what is not set is at its default."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write of a person: the ETag."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["fleet", "name"]
        constraints = [models.UniqueConstraint(fields=["fleet", "name"], name="source_name_unique_in_fleet")]

    def __str__(self) -> str:
        return f"{self.fleet.name}/{self.name}"


class SourceState(models.TextChoices):
    WAITING = "waiting", "waiting"
    FOLLOWED = "followed", "followed"
    FROZEN = "frozen", "frozen"
    FAILING = "failing", "failing"
    PAUSED = "paused", "paused"


class DiscoverySourceStatus(models.Model):
    source = models.OneToOneField(DiscoverySource, on_delete=models.CASCADE, related_name="status")
    state = models.CharField(max_length=10, choices=SourceState.choices, default=SourceState.WAITING)
    reason = models.CharField(max_length=500, blank=True, default="not listed yet")
    since = models.DateTimeField(auto_now_add=True)
    """When ``state`` was entered. Only transitions, and other words, write this row."""
    frozen_since = models.DateTimeField(null=True, blank=True)
    """Since when replicas stay that it does not list, or while it does not answer; null: none does."""
    follower = models.PositiveBigIntegerField(default=0)
    """Fencing token: grows when a process begins to follow the source. One with an older number writes
    nothing any more."""

    def __str__(self) -> str:
        return f"{self.source}: {self.state}"


class ReplicaOwner(models.Model):
    """Of a replica that a source registered. Others are people's and have none."""

    replica = models.OneToOneField(Replica, on_delete=models.CASCADE, related_name="owner")
    source = models.ForeignKey(DiscoverySource, on_delete=models.CASCADE, related_name="owned")
    """When the source is deleted, its replicas stay, and are people's."""
    missing_since = models.DateTimeField(null=True, blank=True)
    """Since when its source has not listed it; null: it does."""
    drained_at = models.DateTimeField(null=True, blank=True)
    """When it was drained for its source; null: it is not."""
    reactivates = models.BooleanField(default=False)
    """Whether it was active then, and is to be again when it is listed again."""

    def __str__(self) -> str:
        return f"{self.replica}: {self.source.name}"
