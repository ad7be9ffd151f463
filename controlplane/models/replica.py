"""One independent instance of a model, at one base URL."""

import uuid

from django.core.validators import MinValueValidator
from django.db import models

from controlplane.models.accelerator import Accelerator
from controlplane.models.fleet import Fleet
from controlplane.models.hardware import HardwareClass, slug_validator


class Replica(models.Model):
    class AdminStateChoice(models.TextChoices):
        ACTIVE = "active", "active"
        DRAINING = "draining", "draining"
        MAINTENANCE = "maintenance", "maintenance"

    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    fleet = models.ForeignKey(Fleet, on_delete=models.CASCADE, related_name="replicas")
    name = models.CharField(max_length=63, validators=[slug_validator])
    url = models.CharField(max_length=500)
    hardware = models.ForeignKey(
        HardwareClass, null=True, blank=True, on_delete=models.PROTECT, related_name="replicas"
    )
    weight = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0.0)])
    """Set: overrides the hardware class's weight. Neither: 1.0."""
    max_concurrency = models.PositiveIntegerField(null=True, blank=True)
    accelerators = models.ManyToManyField(Accelerator, blank=True, related_name="replicas")
    """Devices that it runs on."""
    memory_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    """What it holds on each of them all the time, its weights above all; null: not said."""
    request_bytes = models.PositiveBigIntegerField(default=0)
    """What a request takes on each of them while it runs."""
    request_bytes_per_work = models.FloatField(default=0.0, validators=[MinValueValidator(0.0)])
    """The same for each unit of its estimated work."""
    adapters = models.JSONField(null=True, blank=True, default=None)
    """Names of those of the fleet's adapters that it serves; null: all of them."""
    site = models.CharField(max_length=63, blank=True, default="")
    """Where it is; empty: near to proxies of every site."""
    version = models.CharField(max_length=255, blank=True, default="")
    """Of what it serves: only replicas of one version continue each other's answers."""
    credential = models.CharField(max_length=500, blank=True, default="")
    """Where the bearer token is that it wants, never it (:mod:`routing.contract.secret_references`)."""
    admin_state = models.CharField(
        max_length=12, choices=AdminStateChoice.choices, default=AdminStateChoice.ACTIVE
    )
    move = models.BooleanField(default=False)
    """Whether streams that can be continued are moved to other replicas, while it is not active."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write of an operator only: the ETag. Probing never changes it."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["fleet", "name"]
        constraints = [models.UniqueConstraint(fields=["fleet", "name"], name="replica_name_unique_in_fleet")]

    def __str__(self) -> str:
        return f"{self.fleet.name}/{self.name}"

    @property
    def effective_weight(self) -> float:
        """The replica's own weight, else its hardware class's, else 1.0."""
        if self.weight is not None:
            return self.weight
        return self.hardware.weight if self.hardware else 1.0
