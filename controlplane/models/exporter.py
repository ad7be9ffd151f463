"""A metrics exporter of a host: DCGM's for its accelerators, the node exporter for the host itself."""

from django.db import models


class Exporter(models.Model):
    name = models.CharField(max_length=63, unique=True)
    """As :data:`controlplane.services.exporter_rules.EXPORTER` checks it. Never changes."""
    host = models.CharField(max_length=100)
    """As accelerators' names begin: its devices are ``host/gpu0`` …"""
    url = models.CharField(max_length=500)
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write: the ETag."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
