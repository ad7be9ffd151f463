"""Answers about strategies."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class StrategyParameterSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    type = serializers.ChoiceField(choices=["number", "integer", "boolean", "string"])
    default = serializers.JSONField()
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    words = serializers.CharField(allow_blank=True)


class StrategySerializer(ReadOnlySerializer):
    name = serializers.CharField()
    sentence = serializers.CharField()
    parameters = StrategyParameterSerializer(many=True)
