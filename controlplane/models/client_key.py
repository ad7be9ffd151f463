"""A key that clients of the proxy present. Only a keyed hash of it is stored."""

from django.db import models
from django.db.models import Q

from controlplane.models.fleet import Fleet
from routing.contract.priority import DEFAULT_PRIORITY, PRIORITIES


class ClientKey(models.Model):
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    """First characters, shown so that a person can tell keys apart."""
    key_hash = models.CharField(max_length=64, unique=True)
    """As :func:`routing.contract.client_keys.key_hash` makes it with ``TableState.key_salt``, or with the
    former one."""
    under_former_salt = models.BooleanField(default=False)
    all_fleets = models.BooleanField()
    """Whether it opens every fleet, those made later too; ``fleets`` is empty then."""
    fleets = models.ManyToManyField(Fleet, blank=True, related_name="client_keys")
    """A fleet that is deleted leaves this list. A new one of the same name is another fleet."""
    priority = models.CharField(
        max_length=6, choices=[(name, name) for name in PRIORITIES], default=DEFAULT_PRIORITY
    )
    weight = models.FloatField(default=1.0)
    requests_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    max_concurrency = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    """These five as :class:`routing.contract.table.KeyLimits` has them; null: no limit."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write: the ETag."""
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_by = models.CharField(max_length=150, blank=True, default="")
    revoked_at = models.DateTimeField(null=True, blank=True)
    """Set once, never unset."""

    class Meta:
        ordering = ["name", "-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(revoked_at=None), name="client_key_in_force_name_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
