"""Append-only record of every write: who, from where, what, before, after."""

from django.db import models

from controlplane.models import request_origin


class AuditEntry(models.Model):
    actor = models.CharField(max_length=150)
    origin = models.CharField(max_length=40, blank=True, default=request_origin.current)
    """As :mod:`controlplane.models.request_origin` says it; empty: written before this was kept."""
    verb = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    write = models.CharField(max_length=32, blank=True, default="", db_index=True)
    """The same for all entries and events of one transaction; empty: it stands alone."""
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["-at", "-id"], name="audit_newest")]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.target}"
