"""Alert: one time that a rule's condition holds of one subject, from its first second to its end."""

from django.db import models
from django.db.models import Q


class Alert(models.Model):
    """Written by :mod:`controlplane.alerts` alone. Pending ones that never fire are deleted."""

    class AlertState(models.TextChoices):
        PENDING = "pending", "pending"
        FIRING = "firing", "firing"
        RESOLVED = "resolved", "resolved"

    uid = models.CharField(max_length=32, unique=True)
    rule = models.CharField(max_length=63)
    title = models.CharField(max_length=200)
    """The rule's, as it was."""
    unit = models.CharField(max_length=10, blank=True, default="")
    fleet_name = models.CharField(max_length=63, blank=True, default="")
    replica_name = models.CharField(max_length=63, blank=True, default="")
    part = models.CharField(max_length=200, blank=True, default="")
    state = models.CharField(max_length=10, choices=AlertState.choices, default=AlertState.PENDING)
    severity = models.CharField(max_length=10)
    words = models.CharField(max_length=400)
    value = models.FloatField(null=True, blank=True)
    since = models.DateTimeField()
    fired_at = models.DateTimeField(null=True, blank=True)
    gone_since = models.DateTimeField(null=True, blank=True)
    worded_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)
    """Null: it is open."""
    resolved_words = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ["-since", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "fleet_name", "replica_name", "part"],
                condition=Q(resolved_at=None),
                name="alert_open_once",
            )
        ]
        indexes = [models.Index(fields=["-resolved_at", "-id"], name="alert_newest_resolved")]

    def __str__(self) -> str:
        return f"{self.title}: {self.words}"
