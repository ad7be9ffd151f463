"""Answers about drains of hosts and accelerators."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import WorkersSerializer, WrittenSerializer
from controlplane.api.serializers.replicas import ADMIN_STATES, MovingSerializer


class DrainedReplicaSerializer(ReadOnlySerializer):
    """A replica on the host or accelerator, as it now is."""

    fleet = serializers.CharField()
    replica = serializers.CharField()
    admin_state = serializers.ChoiceField(choices=ADMIN_STATES)
    move = serializers.BooleanField()
    in_flight = serializers.IntegerField(allow_null=True, help_text="Null: no proxy reports.")
    moving = MovingSerializer(
        allow_null=True, help_text="As of the replica: what a drain with `move` would do, or does."
    )
    safe_to_stop = serializers.BooleanField(allow_null=True, help_text="As of the replica.")


class DrainSerializer(ReadOnlySerializer):
    """What is there, and whether all of it can be stopped."""

    replicas = DrainedReplicaSerializer(many=True)
    safe_to_stop = serializers.BooleanField(
        allow_null=True, help_text="True: all of them can be. Null: no proxy reports of one of them."
    )


class DrainedFleetSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    table_version = serializers.CharField(help_text="`epoch:version` of the snapshot with the change.")
    workers = WorkersSerializer()


class DrainChangedSerializer(DrainSerializer, WrittenSerializer):
    fleets = DrainedFleetSerializer(many=True, help_text="Fleets of which replicas were changed.")
