"""Outcome of a write: what changed, whether it is published, which workers have it."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class WorkersSerializer(ReadOnlySerializer):
    """Proxy workers and the version that carries the change."""

    live = serializers.IntegerField(help_text="Workers that reported within the last 5 seconds.")
    applied = serializers.IntegerField(help_text="How many of them route from this version.")
    refused = serializers.IntegerField(help_text="How many of them refused it.")
    waited_ms = serializers.FloatField()


class WrittenSerializer(ReadOnlySerializer):
    """The result of a write."""

    changed = serializers.ListField(
        child=serializers.CharField(),
        help_text="What changed, one line each; empty: everything was already so.",
    )
    published = serializers.BooleanField(
        help_text="False: Redis does not answer, or is another installation's; proxies get the change within "
        "seconds of its return."
    )
    not_published = serializers.CharField(required=False, help_text="Only if it is not: why, and what to do.")


class AppliedSerializer(WrittenSerializer):
    workers = WorkersSerializer()


class OutcomeSerializer(AppliedSerializer):
    revision = serializers.IntegerField(help_text="Policy revision in force.")
    table_version = serializers.CharField(
        help_text="`epoch:version` of the snapshot that contains the change."
    )
