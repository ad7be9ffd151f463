"""Alert destination: where notifications of alerts go, and what of them was told there."""

import uuid

from django.db import models


class AlertDestination(models.Model):
    class DestinationKind(models.TextChoices):
        WEBHOOK = "webhook", "generic webhook"
        SLACK = "slack", "Slack-compatible webhook"
        ALERTMANAGER = "alertmanager", "Alertmanager"
        EMAIL = "email", "e-mail"

    name = models.CharField(max_length=63, unique=True)
    uid = models.UUIDField(default=uuid.uuid4, unique=True)
    """Its signing secret is derived from it, so that one of the same name later has another."""
    kind = models.CharField(max_length=12, choices=DestinationKind.choices)
    enabled = models.BooleanField(default=True)
    url = models.CharField(max_length=2000, blank=True, default="")
    """A URL, or a reference to one (``env:NAME``, ``file:PATH``). Never shown again whole."""
    credential = models.CharField(max_length=500, blank=True, default="")
    """Reference to a bearer token; empty: none."""
    to = models.JSONField(default=list, blank=True)
    """E-mail addresses."""
    only_critical = models.BooleanField(default=False)
    fleets = models.JSONField(default=list, blank=True)
    """Names; empty: all, and what belongs to no fleet."""
    repeat_s = models.FloatField()
    secret_version = models.PositiveIntegerField(default=1)
    """Grows when a new signing secret is asked for."""
    failing_since = models.DateTimeField(null=True, blank=True)
    """Since when nothing that was sent has been taken; null: what was sent last was."""
    last_answer = models.CharField(max_length=300, blank=True, default="")
    """To what was sent last, in words."""
    last_taken = models.BooleanField(null=True, blank=True)
    """Whether that was taken, a test too; null: nothing was sent yet."""
    last_sent_at = models.DateTimeField(null=True, blank=True)
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write of an operator: the ETag."""
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class AlertTold(models.Model):
    """What of one group of alerts a destination was told last."""

    destination = models.ForeignKey(AlertDestination, on_delete=models.CASCADE, related_name="told")
    rule = models.CharField(max_length=63)
    fleet_name = models.CharField(max_length=63, blank=True, default="")
    severities = models.JSONField(default=dict)
    """Uid of an alert → its severity as told."""
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["destination", "rule", "fleet_name"], name="alert_told_once")
        ]

    def __str__(self) -> str:
        return f"{self.destination_id}: {self.rule} {self.fleet_name}"


class AlertDelivery(models.Model):
    """Outbox: one message to one destination, written with the change that it tells of."""

    uid = models.CharField(max_length=32, unique=True)
    """Of the message: the same however often it is sent."""
    destination = models.ForeignKey(AlertDestination, on_delete=models.CASCADE, related_name="deliveries")
    rule = models.CharField(max_length=63)
    fleet_name = models.CharField(max_length=63, blank=True, default="")
    message = models.JSONField()
    """An :class:`controlplane.alerts.message.AlertMessage`."""
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, blank=True)
    """While a worker sends it. One that is killed meanwhile leaves it to the others then."""
    attempts = models.PositiveIntegerField(default=0)
    last_answer = models.CharField(max_length=300, blank=True, default="")
    done_at = models.DateTimeField(null=True, blank=True)
    """When it was taken, or given up."""
    delivered = models.BooleanField(default=False)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["id"], name="alert_delivery_waiting", condition=models.Q(done_at=None))
        ]

    def __str__(self) -> str:
        return f"{self.uid} to {self.destination_id}"
