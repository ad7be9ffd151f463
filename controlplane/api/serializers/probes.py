"""Answers about probe results."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class OneProbeResultSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField(help_text="Seconds since it came.")
    passed = serializers.BooleanField()
    answer = serializers.CharField(
        help_text="What came: `200 OK`, `503 Loading model`, `connection refused`."
    )
    latency_ms = serializers.FloatField(help_text="Of the request that decided it, connecting included.")


class ProbeResultsSerializer(ReadOnlySerializer):
    """The last probe results of a replica, as Redis has them: at most 50."""

    results = OneProbeResultSerializer(many=True, help_text="The newest first.")


class ProbedNowSerializer(ProbeResultsSerializer):
    probed = serializers.BooleanField(
        help_text="False: no result within 5 s. The probe may still run, or no Celery worker takes it."
    )
