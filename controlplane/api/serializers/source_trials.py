"""Answers about trials of discovery sources. Of each list the first fifty are answered."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class NewReplicaSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    url = serializers.CharField()
    hardware = serializers.CharField(allow_null=True)
    site = serializers.CharField(allow_blank=True)


class SourceTrialSerializer(ReadOnlySerializer):
    answered = serializers.BooleanField(help_text="Whether it answers with a list.")
    words = serializers.CharField(help_text="All of it in words.")
    took_s = serializers.FloatField()
    entries = serializers.IntegerField(
        allow_null=True, help_text="How many replicas it lists; null: no answer."
    )
    new = NewReplicaSerializer(many=True, help_text="Replicas that would be registered.")
    changed = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Of replicas that it has registered: what would change, one line each.",
    )
    unchanged = serializers.IntegerField(help_text="Replicas that are there as it says.")
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Replicas that it has registered, and does not list."
    )
    left_alone = serializers.ListField(
        child=serializers.CharField(), help_text="Names that people or other sources own."
    )
    refused = serializers.DictField(
        child=serializers.CharField(), help_text="Of replicas that could not be registered: why."
    )
