"""A token for the REST API. Only a keyed hash of it is stored."""

from django.conf import settings
from django.db import models

from controlplane.models.role_grant import RoleGrant


class ApiToken(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    """First characters, shown so that a person can tell tokens apart."""
    key_hash = models.CharField(max_length=64, unique=True)
    role = models.CharField(
        max_length=10, choices=RoleGrant.RoleChoice.choices, default=RoleGrant.RoleChoice.ADMINISTER
    )
    """It may no more than this, and never more than its user may at the time."""
    selector = models.JSONField(default=dict, blank=True)
    """As in :class:`RoleGrant`: it is limited to fleets with these labels."""
    service = models.BooleanField(default=False)
    """Whether it outlives its user's password."""
    expires_at = models.DateTimeField(null=True, blank=True)
    """Null: never."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
