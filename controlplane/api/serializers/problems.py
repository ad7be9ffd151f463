"""Problem details (RFC 9457): what an error answers."""

from rest_framework import serializers

from controlplane.api.serializers.common import ReadOnlySerializer


class FieldProblemSerializer(ReadOnlySerializer):
    pointer = serializers.CharField(help_text="JSON pointer into the body; empty: the whole body.")
    detail = serializers.CharField()


class ProblemSerializer(ReadOnlySerializer):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = FieldProblemSerializer(many=True)  # type: ignore[assignment]  # hides a property for one class
    confirm = serializers.CharField(
        required=False,
        help_text="Only with 409, where most of what serves would go, or a fleet would expose another's "
        "server: the token for `?confirm=`.",
    )
