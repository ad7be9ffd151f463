"""A user who must choose a password of their own before anything else."""

from django.conf import settings
from django.db import models


class ForcedPasswordChange(models.Model):
    """The row exists while the password is one that somebody else, or a log, has seen."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="forced_password_change"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.user} must change the password"
