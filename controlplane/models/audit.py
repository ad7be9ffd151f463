"""Append-only record of every write: who, what, before, after."""

from django.db import models


class AuditEntry(models.Model):
    actor = models.CharField(max_length=150)
    verb = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.target}"
