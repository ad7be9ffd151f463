"""The manifest's own ``(epoch, version)``, and which installation this database is: one row."""

from django.db import models


class TableState(models.Model):
    epoch = models.PositiveBigIntegerField(default=1)
    """Grows when a database is restored or replaced."""
    manifest_version = models.PositiveBigIntegerField(default=1)
    version_floor = models.PositiveBigIntegerField(default=1)
    """Table version that a new fleet begins with: above that of any fleet ever deleted, so that a
    fleet made anew under an old name is newer than what proxies may still hold of the old one."""

    key_salt = models.CharField(max_length=128, blank=True, default="")
    """Keys the hashes of client keys, hexadecimal; made with the first of them, replaced by hand only
    (:mod:`controlplane.services.key_salts`)."""
    former_salt = models.CharField(max_length=128, blank=True, default="")
    """Of keys that were made before it was replaced; empty: there is none."""
    former_salt_until = models.DateTimeField(null=True, blank=True)
    """When it ends, and those keys with it; null: when somebody says so."""

    keys_required = models.BooleanField(default=False)
    """Whether every request through a proxy needs a client key, also while none is in force."""

    installation = models.CharField(max_length=36, blank=True, default="")
    """Id of the installation: made with the database, never changed. A backup carries it."""
    instance = models.CharField(max_length=32, blank=True, default="")
    """Tells this database from its copies, which have the same id; made anew when it is found elsewhere."""
    place = models.CharField(max_length=200, blank=True, default="")
    """Where the database was when ``instance`` was made (:mod:`controlplane.datastores.database_place`)."""
    succeeded = models.JSONField(default=list, blank=True)
    """Ids of installations that this one has taken over from."""

    def __str__(self) -> str:
        return f"{self.epoch}:{self.manifest_version}"
