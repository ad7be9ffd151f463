"""Answers about API tokens."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.models import RoleGrant


class TokenSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first characters of the token.")
    user = serializers.CharField(help_text="User whose permissions it has, at most.")
    role = serializers.ChoiceField(
        choices=RoleGrant.RoleChoice.values,
        help_text="It may no more than this, nor than its user may at the time.",
    )
    labels = serializers.DictField(
        child=serializers.CharField(), help_text="Only fleets with all of these labels; empty: no limit."
    )
    service = serializers.BooleanField(help_text="Whether it outlives its user's password.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="Null: never.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="Accurate to a minute; null: it has never been used."
    )


class TokenMadeSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The token itself. It cannot be shown again.")
