"""Answers about events."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class EventSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(
        choices=["health", "ejection", "admin", "policy", "limit", "system", "alert"]
    )
    state = serializers.CharField(allow_blank=True)
    fleet = serializers.CharField(allow_null=True)
    fleet_exists = serializers.BooleanField(
        help_text="False: it has been deleted since, or the event has no fleet."
    )
    replica = serializers.CharField(allow_null=True)
    replica_exists = serializers.BooleanField(
        help_text="False: it has been removed since, or the event has no replica."
    )
    revision = serializers.IntegerField(allow_null=True, help_text="Policy revision that the event is about.")
    text = serializers.CharField()
    actor = serializers.CharField(allow_blank=True)
    write = serializers.CharField(
        allow_null=True, help_text="`/audit?write=…` lists the changes; null: no change was made."
    )
