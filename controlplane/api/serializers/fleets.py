"""Answers about fleets."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import OutcomeSerializer
from controlplane.api.serializers.trials import TrialSerializer
from routing.contract.exposure import ALL, INFERENCE

PROTOCOLS = ["openai", "open-inference", "generic"]
_PATHS = {"type": "array", "items": {"type": "string"}}


class ProbeSerializer(ReadOnlySerializer):
    preset = serializers.CharField()
    period_s = serializers.FloatField()
    timeout_s = serializers.FloatField(allow_null=True)
    rise = serializers.IntegerField()
    fall = serializers.IntegerField()
    startup_budget_s = serializers.FloatField()
    flap_damping = serializers.BooleanField()
    headers = serializers.ListField(child=serializers.CharField())
    inference = serializers.CharField(allow_null=True)
    inference_body = serializers.CharField(allow_null=True)
    inference_period_s = serializers.FloatField()
    inference_timeout_s = serializers.FloatField()
    warm_up = serializers.IntegerField()
    path = serializers.CharField(allow_null=True)
    method = serializers.CharField(allow_null=True)
    body = serializers.CharField(allow_null=True)
    accepted_statuses = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    body_contains = serializers.CharField(allow_null=True)
    load_reports = serializers.BooleanField()
    metrics_path = serializers.CharField(allow_null=True)
    metrics_port = serializers.IntegerField(allow_null=True)
    load_header = serializers.BooleanField()


class HealthCountsField(serializers.DictField):
    child = serializers.IntegerField()


class MatchSerializer(ReadOnlySerializer):
    host = serializers.CharField(allow_blank=True, help_text="Empty: any.")
    path_prefix = serializers.CharField(allow_blank=True, help_text="Empty: any.")


class TlsSerializer(ReadOnlySerializer):
    """How replicas with an `https` URL are verified."""

    ca = serializers.CharField(
        allow_blank=True, help_text="`file:PATH` or `env:NAME`; empty: the system's CAs."
    )
    server_name = serializers.CharField(allow_blank=True, help_text="Empty: the host of each URL.")


@extend_schema_field({"oneOf": [{"enum": [INFERENCE, ALL]}, _PATHS, {"type": "null"}]})
class ExposeField(serializers.JSONField):
    """A word or a list of paths."""


class FleetSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    protocol = serializers.ChoiceField(choices=PROTOCOLS)
    aliases = serializers.ListField(child=serializers.CharField())
    adapters = serializers.ListField(
        child=serializers.CharField(), help_text="LoRA adapters that the replicas serve beside the model."
    )
    match = MatchSerializer(
        many=True, help_text="Requests with one of these hosts and paths go to this fleet."
    )
    served_model = serializers.CharField(allow_blank=True)
    expose = ExposeField(
        allow_null=True,
        help_text="What clients may reach: `inference`, `all`, or paths and what is below them. Null: the "
        "fleet is older than this setting; what `inference` would refuse is counted only.",
    )
    credential = serializers.CharField(
        allow_blank=True, help_text="Where to find the bearer token for its replicas; never the token itself."
    )
    labels = serializers.DictField(
        child=serializers.CharField(), help_text="Label → value. Roles can be limited to fleets with them."
    )
    default = serializers.BooleanField()
    strategy = serializers.CharField()
    probe = ProbeSerializer()
    tls = TlsSerializer()
    revision = serializers.IntegerField()
    table_version = serializers.CharField()
    replicas = serializers.IntegerField(help_text="Number of replicas.")
    health = HealthCountsField(help_text="Number of replicas by health.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class FleetChangedSerializer(FleetSerializer, OutcomeSerializer):
    pass


class TrialsField(serializers.DictField):
    child = TrialSerializer()


class FleetCreatedSerializer(FleetChangedSerializer):
    trials = TrialsField(
        help_text="Results by replica name; empty: no trial (`?trial=no`, or more than 20 replicas)."
    )
