"""Role bindings (RBAC): what an account may do, and in which fleets."""

from django.conf import settings
from django.db import models


class RoleGrant(models.Model):
    """One role of one account. An account without any has the role that ``is_staff`` says, everywhere."""

    class RoleChoice(models.TextChoices):
        READ = "read", "read"
        OPERATE = "operate", "operate"
        ADMINISTER = "administer", "administer"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants")
    role = models.CharField(max_length=10, choices=RoleChoice.choices)
    selector = models.JSONField(default=dict, blank=True)
    """Label → value: all that a fleet must have. Empty: every fleet, and what belongs to none."""

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.user} may {self.role} {self.selector or 'everything'}"
