"""Answers about replicas."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import OutcomeSerializer
from controlplane.api.serializers.trials import TrialSerializer

ADMIN_STATES = ["active", "draining", "maintenance"]
HEALTH = ["checking", "ready", "unready", "down"]


class HealthSerializer(ReadOnlySerializer):
    state = serializers.ChoiceField(choices=HEALTH)
    reason = serializers.CharField(allow_blank=True)
    has_passed = serializers.BooleanField()
    since = serializers.DateTimeField(help_text="When it entered this state.")
    startup_s = serializers.FloatField(
        allow_null=True, help_text="Duration of its last start; null: no start has been observed."
    )
    expected_in_s = serializers.FloatField(
        allow_null=True,
        help_text="Estimated time until it is ready, from the duration of its last start or of the starts of "
        "the fleet's other replicas; 0: it takes longer than that. Null: it is not starting, or no start has "
        "been observed.",
    )


class DrainedAtSerializer(ReadOnlySerializer):
    proxy = serializers.CharField()
    expires_in_s = serializers.IntegerField()


class ReplicaSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    uid = serializers.CharField()
    url = serializers.CharField()
    hardware = serializers.CharField(allow_null=True)
    weight = serializers.FloatField(
        allow_null=True, help_text="As set; null: the weight of its hardware class."
    )
    effective_weight = serializers.FloatField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    accelerators = serializers.ListField(
        child=serializers.CharField(), help_text="Accelerators that it runs on."
    )
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Memory that it holds permanently on each of them; null: not set."
    )
    request_bytes = serializers.IntegerField(
        help_text="Memory that a request takes on each of them while it runs."
    )
    request_bytes_per_work = serializers.FloatField(
        help_text="The same, for each unit of its estimated work."
    )
    site = serializers.CharField(
        allow_blank=True, help_text="Site where it is; empty: local to proxies of every site."
    )
    credential = serializers.CharField(
        allow_blank=True,
        help_text="Where to find its bearer token, never the token itself; empty: the fleet's.",
    )
    admin_state = serializers.ChoiceField(choices=ADMIN_STATES)
    health = HealthSerializer()
    ejected = serializers.BooleanField(allow_null=True, help_text="Null: no proxy reports.")
    eligible = serializers.BooleanField(
        help_text="Whether admin state, health and ejection allow it, and one proxy at least can send to it."
    )
    why = serializers.CharField(help_text="Which of them does not, and why.")
    drained_by_hand = DrainedAtSerializer(
        many=True, help_text="Proxies with an emergency drain of it, made through the proxy's admin listener."
    )
    in_flight = serializers.IntegerField(allow_null=True, help_text="Null: no proxy reports.")
    safe_to_stop = serializers.BooleanField(
        allow_null=True,
        help_text="True: no proxy worker sends it new requests, none is in flight. Null: no proxy reports.",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ReplicaChangedSerializer(ReplicaSerializer, OutcomeSerializer):
    trial = TrialSerializer(
        allow_null=True, help_text="Null: no trial (`?trial=no`, or the URL is unchanged)."
    )
