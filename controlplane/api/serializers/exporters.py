"""Answers about exporters."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class ExporterSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    host = serializers.CharField(help_text="As names of its accelerators begin.")
    url = serializers.CharField()
    age_s = serializers.FloatField(allow_null=True, help_text="Since it was read; null: not yet.")
    problem = serializers.CharField(
        allow_null=True,
        allow_blank=True,
        help_text="Why it says nothing; empty: it does; null: not read yet.",
    )
    devices = serializers.ListField(
        child=serializers.CharField(), help_text="Accelerators that it tells of, registered or not."
    )
    created_at = serializers.DateTimeField()


class ExporterChangedSerializer(ExporterSerializer):
    changed = serializers.ListField(child=serializers.CharField(), help_text="What changed, one line each.")
