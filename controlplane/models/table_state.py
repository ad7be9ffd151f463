"""The manifest's own ``(epoch, version)``: one row."""

from django.db import models


class TableState(models.Model):
    epoch = models.PositiveBigIntegerField(default=1)
    """Grows when a database is restored or replaced."""
    manifest_version = models.PositiveBigIntegerField(default=1)

    def __str__(self) -> str:
        return f"{self.epoch}:{self.manifest_version}"
