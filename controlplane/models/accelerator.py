"""One physical device with a memory size, shared by replicas of any fleet."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from routing.contract.table import AcceleratorSpec


class Accelerator(models.Model):
    name = models.CharField(max_length=127, unique=True)
    """``node1/gpu0``: as :data:`routing.contract.fleet_file.rules.ACCELERATOR` checks it. Never changes."""
    memory_bytes = models.PositiveBigIntegerField(validators=[MinValueValidator(1)])
    headroom_percent = models.FloatField(
        default=5.0, validators=[MinValueValidator(0.0), MaxValueValidator(100.0)]
    )
    """Of its memory, kept free of weights and leases."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write: the ETag."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def spec(self) -> AcceleratorSpec:
        """As proxies are to know it."""
        return AcceleratorSpec(
            name=self.name, memory_bytes=self.memory_bytes, headroom_percent=self.headroom_percent
        )
