"""Answers about replicas."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import OutcomeSerializer
from controlplane.api.serializers.rule_fields import Field, setting_fields
from controlplane.api.serializers.trials import TrialSerializer
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.sources.source_rules import KINDS
from routing.contract.fleet_file.structs import ReplicaEntry
from routing.contract.moving import STAYS

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
    flap_penalty = serializers.FloatField(
        help_text="How often it was lost lately: each loss of `ready` adds 1, and it halves every 5 minutes. "
        "Above 2 it needs more passes than `rise`, where the probe has `flap_damping`."
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


class StayingSerializer(ReadOnlySerializer):
    reason = serializers.ChoiceField(choices=sorted(STAYS))
    requests = serializers.IntegerField()
    words = serializers.CharField()


class MovingSerializer(ReadOnlySerializer):
    movable = serializers.IntegerField(
        help_text="Requests in flight that other replicas could go on with, once they have room."
    )
    movable_prompt_tokens = serializers.IntegerField(
        help_text="Prompt tokens that they would have to read for that, as estimated."
    )
    staying = StayingSerializer(many=True, help_text="The others, by why they cannot be moved.")
    moved = serializers.IntegerField(help_text="Requests that were moved since it is drained with `move`.")
    moved_prompt_tokens = serializers.IntegerField(
        help_text="Prompt tokens that others had to read for those, as estimated."
    )


class OwnerSerializer(ReadOnlySerializer):
    source = serializers.CharField(  # type: ignore[assignment]  # a field of this name, not the option
        help_text="Name of the source that registered it."
    )
    kind = serializers.ChoiceField(choices=list(KINDS))
    missing_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when the source has not listed it; null: it does."
    )
    drained_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When it was drained because the source no longer has it; null: it was not.",
    )


class LearnedSerializer(ReadOnlySerializer):
    times_usual = serializers.FloatField(
        help_text="Seconds per unit of work, relative to the fleet's usual for a replica of its weight. "
        "Drawn to 1 as far as the difference may be chance."
    )
    error = serializers.FloatField(help_text="Standard error of that, as a factor: 1.12 is ± 12 %.")
    request_s = serializers.FloatField(help_text="Seconds that a request of mean size takes there.")
    requests = serializers.FloatField(
        help_text="Evidence in requests of mean size, each counting less as it ages."
    )
    is_known = serializers.BooleanField(
        help_text="False: it has had too few requests lately and is taken to be nearly as its fleet."
    )


_WORDS = {
    "name": "",
    "url": "",
    "weight": "As set; null: the weight of its hardware class.",
    "max_concurrency": "",
    "accelerators": "Accelerators that it runs on.",
    "memory_bytes": "Memory that it holds permanently on each of them; null: not set.",
    "request_bytes": "Memory that a request takes on each of them while it runs.",
    "request_bytes_per_work": "The same, for each unit of its estimated work.",
    "site": "Site where it is; empty: local to proxies of every site.",
    "version": "Version of what it serves; empty: not set.",
    "credential": "Where to find its bearer token, never the token itself; empty: the fleet's.",
}
"""Settings that the reference describes otherwise in an answer than in a request."""
_AFTER = {"name": "uid", "weight": "effective_weight"}
"""Setting → the field that belongs to it and follows it."""


class ReplicaSerializer(ReadOnlySerializer):
    # Every setting of a replica has a field: made from its rule, unless it is declared here. No docstring,
    # for the reference would show it.
    uid = serializers.CharField()
    hardware = serializers.CharField(allow_null=True)
    effective_weight = serializers.FloatField()
    admin_state = serializers.ChoiceField(choices=ADMIN_STATES)
    move = serializers.BooleanField(
        help_text="Whether its streams are moved to other replicas, while it is not active."
    )
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
    moving = MovingSerializer(
        allow_null=True,
        help_text="What a drain with `move` would do, or does. Null: no proxy reports, or the fleet's policy "
        "does not continue streams and it is not drained so.",
    )
    learned = LearnedSerializer(
        allow_null=True, help_text="How fast it is, as proxies have learned it; null: not learned yet."
    )
    managed_by = OwnerSerializer(
        allow_null=True,
        help_text="The source that put it there, and says what it is and when it goes. Null: people do.",
    )
    safe_to_stop = serializers.BooleanField(
        allow_null=True,
        help_text="True: no proxy worker sends it new requests, none is in flight. Null: no proxy reports.",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_fields(self) -> dict[str, Field]:
        """Settings in their order, then what else is declared."""
        declared = super().get_fields()
        fields: dict[str, Field] = {}
        for name, setting in setting_fields(REPLICA, ReplicaEntry, _WORDS).items():
            fields[name] = setting
            if name in _AFTER:
                fields[_AFTER[name]] = declared[_AFTER[name]]
        return fields | declared


class ReplicaChangedSerializer(ReplicaSerializer, OutcomeSerializer):
    trial = TrialSerializer(
        allow_null=True, help_text="Null: no trial (`?trial=no`, or the URL is unchanged)."
    )
