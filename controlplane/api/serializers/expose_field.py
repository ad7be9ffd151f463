"""The field ``expose`` of a fleet, for the OpenAPI document."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from routing.contract.exposure import ALL, INFERENCE

_PATHS = {"type": "array", "items": {"type": "string"}}


@extend_schema_field({"oneOf": [{"enum": [INFERENCE, ALL]}, _PATHS, {"type": "null"}]})
class ExposeField(serializers.JSONField):
    """A word or a list of paths."""
