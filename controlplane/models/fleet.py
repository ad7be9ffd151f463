"""All replicas that serve one model, with one routing policy."""

from django.db import models
from django.db.models import Q

from controlplane.models.hardware import slug_validator


class Fleet(models.Model):
    class Protocol(models.TextChoices):
        OPENAI = "openai", "OpenAI"
        OPEN_INFERENCE = "open-inference", "Open Inference Protocol (V2)"
        GENERIC = "generic", "generic"

    name = models.CharField(max_length=63, unique=True, validators=[slug_validator])
    protocol = models.CharField(max_length=20, choices=Protocol.choices)
    aliases = models.JSONField(default=list, blank=True)
    adapters = models.JSONField(default=list, blank=True)
    match = models.JSONField(default=list, blank=True)
    """Hosts and paths of its requests: what the operator set of each routing.contract.table.Match."""
    served_model = models.CharField(max_length=255, blank=True, default="")
    expose = models.JSONField(null=True, blank=True, default=None)
    """What its clients may reach (:mod:`routing.contract.exposure`). NULL: the fleet is older than this
    setting, and everything is reachable as it was."""
    credential = models.CharField(max_length=500, blank=True, default="")
    """Reference to the bearer token of replicas that have none of their own."""
    labels = models.JSONField(default=dict, blank=True)
    """Label → value, as :mod:`routing.contract.label_rules` allows; roles can be limited to them."""
    is_default = models.BooleanField(default=False)
    policy = models.JSONField(default=dict, blank=True)
    """What the operator set of routing.contract.policy.Policy; defaults are not written out."""
    probe = models.JSONField(default=dict, blank=True)
    """What the operator set of routing.contract.probe.Probe."""
    tls = models.JSONField(default=dict, blank=True)
    """What the operator set of routing.contract.table.Tls."""
    revision = models.PositiveIntegerField(default=1)
    """Number of the policy revision in force."""
    table_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write that changes this fleet's snapshot, probe transitions included."""
    edit_version = models.PositiveBigIntegerField(default=1)
    """Grows with every write of an operator only: the ETag. Probing never changes it."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="at_most_one_default_fleet"
            )
        ]

    def __str__(self) -> str:
        return self.name
