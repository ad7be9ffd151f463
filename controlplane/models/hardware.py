"""A named kind of hardware with a weight: its speed relative to weight 1.0."""

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models

slug_validator = RegexValidator(
    r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$",
    "Use 1 to 63 lower-case letters, digits, dots, hyphens and underscores; "
    "begin and end with a letter or digit.",
)
"""What fleets, replicas and hardware classes may be called. Immutable once created."""


class HardwareClass(models.Model):
    name = models.CharField(max_length=63, unique=True, validators=[slug_validator])
    weight = models.FloatField(default=1.0, validators=[MinValueValidator(0.0)])
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write: the ETag."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
