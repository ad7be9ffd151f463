"""One numbered revision of a fleet's policy. Weights are part of it, so every change can be rolled back."""

from django.db import models

from controlplane.models.fleet import Fleet


class PolicyRevision(models.Model):
    fleet = models.ForeignKey(Fleet, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    policy = models.JSONField()
    weights = models.JSONField(default=dict)
    """Replica name → weight as the operator set it; null: the hardware class's."""
    actor = models.CharField(max_length=150)
    summary = models.CharField(max_length=300)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["fleet", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["fleet", "number"], name="revision_number_unique_in_fleet")
        ]

    def __str__(self) -> str:
        return f"{self.fleet.name} revision {self.number}"
