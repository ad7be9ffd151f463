"""Answers about hardware classes."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import WorkersSerializer, WrittenSerializer


class HardwareClassSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    weight = serializers.FloatField()
    replicas = serializers.IntegerField(help_text="Number of replicas of this class.")
    created_at = serializers.DateTimeField()


class AffectedFleetSerializer(ReadOnlySerializer):
    """A fleet that a change of something else affects."""

    name = serializers.CharField()
    table_version = serializers.CharField(
        help_text="`epoch:version` of the snapshot that contains the change."
    )
    workers = WorkersSerializer()


class HardwareClassChangedSerializer(HardwareClassSerializer, WrittenSerializer):
    fleets = AffectedFleetSerializer(
        many=True, help_text="Fleets with replicas that take their weight from this class."
    )
