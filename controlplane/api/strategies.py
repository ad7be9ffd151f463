"""``/strategies``: every strategy and its parameters."""

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.serializers.strategies import StrategySerializer
from routing.balancing.strategies import registry


class StrategyList(ApiView):
    limited = ("GET",)

    @reads("list_strategies", "Strategies and their parameters", StrategySerializer(many=True))
    def get(self, request: Request) -> Response:
        return Response([msgspec.to_builtins(registry.describe(name)) for name in registry.names()])
