"""Answers about audit entries."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class FieldChangeSerializer(ReadOnlySerializer):
    field = serializers.CharField(help_text="Dotted path, for example `timeouts.total_s`.")
    before = serializers.JSONField()
    after = serializers.JSONField()


class AuditEntrySerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    origin = serializers.CharField(
        allow_blank=True,
        help_text="`session` (a page), `token sy_…`, `server` (a command or process); empty: not recorded.",
    )
    verb = serializers.CharField()
    target = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    changes = FieldChangeSerializer(many=True)
    write = serializers.CharField(
        allow_null=True, help_text="The same value for all entries of one transaction."
    )
