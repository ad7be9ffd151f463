"""``/fleets/{fleet}/objectives``: how what its policy promises stands."""

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.datastores import redis
from controlplane.objectives import published
from controlplane.objectives.burn_rate import BURN_RULES, SHOWN_WINDOWS
from controlplane.services.lookup import fleet_named


class ObjectiveSerializer(ReadOnlySerializer):
    """One objective."""

    kind = serializers.ChoiceField(choices=("success", "latency", "first_token"))
    words = serializers.CharField()
    target_percent = serializers.FloatField()
    within_s = serializers.FloatField(allow_null=True, help_text="Null: of `success`.")
    window_days = serializers.FloatField()
    requests = serializers.IntegerField(help_text="That count for it, in its window.")
    bad = serializers.IntegerField()
    attained_percent = serializers.FloatField(allow_null=True, help_text="Null: too few requests to tell.")
    budget_left_percent = serializers.FloatField(
        allow_null=True, help_text="Of the error budget; negative: overdrawn. Null: too few requests to tell."
    )
    burn = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="By window, how fast the error budget burns: 1 uses it up in just the objective's window.",
    )
    burning = serializers.ChoiceField(
        choices=[rule.name for rule in BURN_RULES],
        allow_null=True,
        help_text="The most urgent rule that holds; null: it does not burn too fast.",
    )
    untold = serializers.CharField(
        allow_blank=True,
        help_text="Why it cannot be told how it stands: no answer of the fleet was streamed. Else empty.",
    )


class FleetObjectivesSerializer(ReadOnlySerializer):
    at = serializers.FloatField(
        allow_null=True, help_text="When this was counted, Unix seconds; null: nobody counts at this moment."
    )
    objectives = ObjectiveSerializer(many=True, help_text="Empty: its policy promises nothing.")


class FleetObjectivesView(ApiView):
    @reads(
        "get_fleet_objectives",
        f"Attainment, error budget and burn ({', '.join(SHOWN_WINDOWS)}) of a fleet's objectives",
        FleetObjectivesSerializer,
        live=True,
    )
    def get(self, request: Request, fleet: str) -> Response:
        fleet_named(fleet)
        with redis_needed():
            found = published.read(redis.client(), fleet)
        return Response({"at": None, "objectives": []} if found is None else msgspec.to_builtins(found))
