"""Answers about accelerators."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import WorkersSerializer, WrittenSerializer


class AcceleratorReplicaSerializer(ReadOnlySerializer):
    """A replica on an accelerator, and the memory that it takes there."""

    fleet = serializers.CharField()
    replica = serializers.CharField()
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="Held permanently; null: not set.")
    request_bytes = serializers.IntegerField(help_text="Taken by each request while it runs.")
    request_bytes_per_work = serializers.FloatField(
        help_text="The same, for each unit of its estimated work."
    )


class AcceleratorSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    headroom_percent = serializers.FloatField(help_text="Share of its memory that is kept free.")
    usable_bytes = serializers.IntegerField(help_text="Its memory less the headroom.")
    held_bytes = serializers.IntegerField(help_text="Held permanently by its replicas.")
    leased_bytes = serializers.IntegerField(
        allow_null=True, help_text="Reserved by requests in flight. Null: no proxy reports."
    )
    replicas = AcceleratorReplicaSerializer(many=True)
    created_at = serializers.DateTimeField()


class AcceleratorChangedSerializer(AcceleratorSerializer, WrittenSerializer):
    workers = WorkersSerializer()
