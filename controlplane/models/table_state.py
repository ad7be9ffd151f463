"""The manifest's own ``(epoch, version)``: one row."""

from django.db import models


class TableState(models.Model):
    epoch = models.PositiveBigIntegerField(default=1)
    """Grows when a database is restored or replaced."""
    manifest_version = models.PositiveBigIntegerField(default=1)
    version_floor = models.PositiveBigIntegerField(default=1)
    """Table version that a new fleet begins with: above that of any fleet ever deleted, so that a
    fleet made anew under an old name is newer than what proxies may still hold of the old one."""

    key_salt = models.CharField(max_length=128, blank=True, default="")
    """Keys the hashes of client keys, hexadecimal; made with the first of them, never changed."""

    def __str__(self) -> str:
        return f"{self.epoch}:{self.manifest_version}"
