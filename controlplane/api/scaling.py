"""``/fleets/{fleet}/scaling``: how many replicas a fleet needs."""

from typing import Any

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import live
from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.services.lookup import fleet_named


class ScalingSignalSerializer(ReadOnlySerializer):
    desired = serializers.IntegerField(
        allow_null=True, help_text="Null: that cannot be told; `words` say why."
    )
    words = serializers.CharField(help_text="Why so many.")
    taking = serializers.IntegerField(allow_null=True, help_text="Replicas that take requests now.")
    starting = serializers.IntegerField(allow_null=True, help_text="Replicas that are not ready yet.")
    arrivals_per_s = serializers.FloatField(
        allow_null=True, help_text="Requests that clients send, whatever becomes of them."
    )
    expected_per_s = serializers.FloatField(
        allow_null=True, help_text="The same by the time at which a replica that starts now is ready."
    )
    replica_per_s = serializers.FloatField(
        allow_null=True, help_text="What one replica can take at `target_percent` of its places."
    )
    used_percent = serializers.FloatField(
        allow_null=True, help_text="Places in use, of those of the replicas that take requests."
    )
    age_s = serializers.FloatField(
        allow_null=True,
        help_text="How old `desired` is, where it cannot be told anew, 60 s at most; 0: of now.",
    )


class FleetScalingView(ApiView):
    @reads(
        "get_scaling_signal", "How many replicas a fleet needs, and why", ScalingSignalSerializer, live=True
    )
    def get(self, request: Request, fleet: str) -> Response:
        return Response(_represented(fleet_named(fleet).name))


def _represented(fleet: str) -> dict[str, Any]:
    signal, missing = live.fresh_scaling(fleet)
    if signal is not None:
        answer: dict[str, Any] = msgspec.to_builtins(signal)
        return answer
    unknown = dict.fromkeys(ScalingSignalSerializer().fields)
    return {**unknown, "words": f"cannot tell: {missing or 'no proxy reports'}"}
