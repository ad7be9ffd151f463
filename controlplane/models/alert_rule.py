"""Alert rule: a threshold of one's own, or what was changed of a rule that comes with Switchyard."""

from django.db import models

from controlplane.models.fleet import Fleet


class AlertRule(models.Model):
    name = models.CharField(max_length=63, unique=True)
    built_in = models.BooleanField(default=False)
    """Whether it changes the built-in rule of its name; then it has no metric."""
    enabled = models.BooleanField(default=True)
    severity = models.CharField(max_length=10)
    for_s = models.FloatField()
    keep_s = models.FloatField()
    fleet = models.ForeignKey(
        Fleet, null=True, blank=True, on_delete=models.CASCADE, related_name="alert_rules"
    )
    """Of a threshold; null: of every fleet."""
    metric = models.CharField(max_length=40, blank=True, default="")
    comparison = models.CharField(max_length=5, blank=True, default="")
    value = models.FloatField(null=True, blank=True)
    """In the metric's unit, as ``clear_value``."""
    clear_value = models.FloatField(null=True, blank=True)
    """Null: as ``value``."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write: the ETag."""
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
