"""The newest live frame."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class LiveSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField(allow_null=True, help_text="Age of the frame; null: there is none.")
    frame = serializers.JSONField(help_text="The frame that pages get once a second; null: there is none.")
