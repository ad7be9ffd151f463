"""Answers about client keys."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.api.serializers.outcomes import AppliedSerializer
from routing.contract.priority import PRIORITIES


class ClientKeySerializer(ReadOnlySerializer):
    """A client key of the proxy. Only the response that created it has the key itself."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first characters of the key.")
    fleets = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Fleets that it may use; null: every fleet; empty: those fleets have been deleted.",
    )
    priority = serializers.ChoiceField(
        choices=list(PRIORITIES), help_text="Priority of its requests in the queue: high goes first."
    )
    weight = serializers.FloatField(
        help_text="Its share of the queue within its class, relative to other clients."
    )
    requests_per_minute = serializers.IntegerField(allow_null=True, help_text="Null: no limit.")
    max_concurrency = serializers.IntegerField(
        allow_null=True, help_text="Concurrent requests, in flight and waiting; null: no limit."
    )
    tokens_per_minute = serializers.IntegerField(
        allow_null=True, help_text="Prompt plus output tokens; null: no limit."
    )
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    revoked_by = serializers.CharField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True, help_text="Null: the key is valid.")


class ClientKeyChangedSerializer(ClientKeySerializer, AppliedSerializer):
    effect = serializers.CharField(
        required=False,
        help_text="Only of the first and the last key: what happens to requests without a key from now on.",
    )


class ClientKeySettingsSerializer(ReadOnlySerializer):
    required = serializers.BooleanField(  # type: ignore[assignment]  # a field of this name, not the option
        help_text="Whether every request needs a client key. The first key turns it on; revoking the last "
        "one does not turn it off."
    )
    keys = serializers.IntegerField(help_text="Client keys in force.")
    effect = serializers.CharField(help_text="What that means for requests.")


class ClientKeySettingsChangedSerializer(ClientKeySettingsSerializer, AppliedSerializer):
    pass


class ClientKeyMadeSerializer(ClientKeyChangedSerializer):
    key = serializers.CharField(help_text="The key itself. It cannot be shown again.")
