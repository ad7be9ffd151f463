"""Answers about discovery sources."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.rule_fields import Field, section_serializer
from controlplane.models import SourceState
from routing.contract.fleet_file.sources.source_rules import KINDS

_OF_KIND = {
    kind: section_serializer(f"{kind.capitalize()}Source", section, section.words)
    for kind, section in KINDS.items()
}


class LastListSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField()
    took_s = serializers.FloatField()
    entries = serializers.IntegerField(
        allow_null=True, help_text="Replicas that it lists; null: it did not answer."
    )
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Names that people or other sources own."
    )
    refused = serializers.DictField(
        child=serializers.CharField(),
        help_text="Of replicas that it lists and that could not be registered or changed: why. At most 20.",
    )


class SourceSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=list(KINDS))
    replica = serializers.DictField(help_text="Settings of every replica that it lists.")
    resync_s = serializers.FloatField()
    paused = serializers.BooleanField(help_text="Whether it is not followed for now.")
    state = serializers.ChoiceField(
        choices=SourceState.values,
        help_text="`waiting`: not listed yet. `frozen`: replicas stay that it does not list. `failing`: it "
        "does not answer, all its replicas stay. `paused`: it is not followed, its replicas stay.",
    )
    reason = serializers.CharField(help_text="Why it is in that state, in words.", allow_blank=True)
    since = serializers.DateTimeField(help_text="When it entered this state.")
    frozen_since = serializers.DateTimeField(
        allow_null=True, help_text="Since when replicas stay without its word; null: none does."
    )
    replicas = serializers.IntegerField(help_text="Replicas that it has registered.")
    frozen = serializers.IntegerField(help_text="How many of them stay without its word.")
    oldest_missing_s = serializers.FloatField(
        allow_null=True, help_text="How long ago the first of them was last listed; null: it lists all."
    )
    last_list = LastListSerializer(allow_null=True, help_text="Null: none is known of.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_fields(self) -> dict[str, Field]:
        """The settings of each kind stand after it; those of the others are not there."""
        fields = super().get_fields()
        ordered: dict[str, Field] = {}
        for name, field in fields.items():
            ordered[name] = field
            if name == "kind":
                ordered |= {kind: of_kind(required=False) for kind, of_kind in _OF_KIND.items()}
        return ordered


class SourceResyncedSerializer(SourceSerializer):
    listed = serializers.BooleanField(
        help_text="Whether it was listed meanwhile. False: it does not answer yet, or no conductor leads."
    )


class SourceChangedSerializer(SourceSerializer):
    changed = serializers.ListField(child=serializers.CharField(), help_text="What changed, one line each.")
