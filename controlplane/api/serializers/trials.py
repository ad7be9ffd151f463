"""Answers of trial probes."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class SuggestedProbeSerializer(ReadOnlySerializer):
    probe = serializers.DictField(help_text="In the format of a fleet's `probe`.")
    words = serializers.CharField()


class TrialSerializer(ReadOnlySerializer):
    """Result of a trial probe: one address, probed once in the way its probes will do it."""

    outcome = serializers.ChoiceField(
        choices=["ready", "unready", "down", "refused"],
        help_text="`refused`: this address is forbidden for replicas; nothing was sent there.",
    )
    words = serializers.CharField(help_text="What was observed, and what to check.")
    url = serializers.CharField(help_text="The URL in normal form.")
    asked = serializers.CharField(help_text="The request, for example `GET /health`.")
    preset = serializers.CharField()
    status = serializers.IntegerField(allow_null=True, help_text="Null: there was no HTTP response.")
    latency_ms = serializers.FloatField(allow_null=True, help_text="Null: there was no HTTP response.")
    fits = SuggestedProbeSerializer(
        allow_null=True,
        help_text="Another probe that fits this server; null: none is needed, or none was found.",
    )
