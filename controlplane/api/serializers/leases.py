"""Answers about leases of replicas that register themselves."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class LeasedReplicaSerializer(ReadOnlySerializer):
    eligible = serializers.BooleanField()
    why = serializers.CharField()
    in_flight = serializers.IntegerField(allow_null=True, help_text="Null: no proxy reports.")
    safe_to_stop = serializers.BooleanField(allow_null=True, help_text="Null: no proxy reports.")


class LeaseSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    url = serializers.CharField(help_text="Of the server that holds it, or held it last.")
    ttl_s = serializers.FloatField(help_text="How long it holds from each renewal; renew at a third of it.")
    expires_in_s = serializers.FloatField(help_text="0: it has run out, or was released.")
    leaving = serializers.BooleanField(help_text="Whether the replica is on its way out.")
    replica = LeasedReplicaSerializer(allow_null=True, help_text="Null: not registered yet.")
