"""Base of all serializers of answers."""

from rest_framework import serializers

ReadOnlySerializer = serializers.Serializer[object]
