"""Alert silence: nobody is told of some alerts until it ends, and why."""

from django.db import models


class AlertSilence(models.Model):
    """What it is for: all that are set must be the alert's; empty: any."""

    rule = models.CharField(max_length=63, blank=True, default="")
    fleet_name = models.CharField(max_length=63, blank=True, default="")
    replica_name = models.CharField(max_length=63, blank=True, default="")
    part = models.CharField(max_length=200, blank=True, default="")
    reason = models.CharField(max_length=300)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    ends_at = models.DateTimeField()
    ended_by = models.CharField(max_length=150, blank=True, default="")
    """Who ended it before its time; empty: nobody."""

    class Meta:
        ordering = ["-ends_at", "-id"]

    def __str__(self) -> str:
        return f"silence until {self.ends_at:%F %T}: {self.reason}"
