"""Answers about policies and their revisions."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import OutcomeSerializer
from controlplane.api.serializers.rule_fields import section_serializer
from routing.balancing.strategies import registry
from routing.contract.policy_rules import (
    EJECTION,
    FALLBACK,
    LIMITS,
    LOCALITY,
    QUEUE,
    RETRIES,
    SCALING,
    SLO,
    TIMEOUTS,
)


class StrategyParametersField(serializers.DictField):
    child = serializers.JSONField()


@extend_schema_field({"oneOf": [{"type": "number", "format": "double"}, {"enum": ["auto", "off"]}]})
class FirstTokenLimitField(serializers.JSONField):
    """Seconds, or a word."""


TimeoutsSerializer = section_serializer("Timeouts", TIMEOUTS)
LimitsSerializer = section_serializer("Limits", LIMITS)
RetriesSerializer = section_serializer("Retries", RETRIES)
EjectionSerializer = section_serializer("Ejection", EJECTION)
QueueSerializer = section_serializer("Queue", QUEUE, QUEUE.words)
LocalitySerializer = section_serializer("Locality", LOCALITY, LOCALITY.words)
FallbackSerializer = section_serializer("Fallback", FALLBACK, FALLBACK.words)
SloSerializer = section_serializer("Slo", SLO, SLO.words)
ScalingSerializer = section_serializer("Scaling", SCALING, SCALING.words)


class PolicyValuesSerializer(ReadOnlySerializer):
    """Every value in force, defaults included."""

    strategy = serializers.ChoiceField(choices=registry.names())
    parameters = StrategyParametersField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    serves = serializers.ChoiceField(choices=["auto", "slots", "batch"])
    timeouts = TimeoutsSerializer()
    limits = LimitsSerializer()
    retries = RetriesSerializer()
    ejection = EjectionSerializer()
    slow_start_s = serializers.FloatField()
    half_close = serializers.ChoiceField(choices=["abort", "allow"])
    continuation = serializers.ChoiceField(choices=["auto", "off"])
    fallback = FallbackSerializer(many=True)
    fallback_budget_percent = serializers.FloatField()
    first_token_limit_s = FirstTokenLimitField()
    plain_limit_factor = serializers.FloatField(allow_null=True)
    queue = QueueSerializer()
    locality = LocalitySerializer()
    slo = SloSerializer()
    scaling = ScalingSerializer()


class PolicySerializer(ReadOnlySerializer):
    fleet = serializers.CharField()
    revision = serializers.IntegerField()
    policy = PolicyValuesSerializer()
    set = serializers.DictField(help_text="Only the values that differ from the defaults.")


class PolicyChangedSerializer(PolicySerializer, OutcomeSerializer):
    pass


class RevisionSerializer(ReadOnlySerializer):
    number = serializers.IntegerField()
    policy = PolicyValuesSerializer()
    weights = serializers.DictField(child=serializers.FloatField(allow_null=True))
    actor = serializers.CharField()
    summary = serializers.CharField()
    created_at = serializers.DateTimeField()


class RevisionDetailSerializer(RevisionSerializer):
    would_change = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="What restoring it would change now, one line each; null: it cannot be restored.",
    )
    refused = serializers.CharField(allow_blank=True, help_text="Why it cannot be restored; empty: it can.")
