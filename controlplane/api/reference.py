"""``/strategies``, ``/events`` and the live frames: what can only be read."""

from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter
from redis.exceptions import RedisError
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import live, represent, serializers
from controlplane.api.base import ApiView
from controlplane.api.documented import SEARCH, lists, reads
from controlplane.models import Event
from controlplane.services.lookup import fleet_named
from routing.strategies import registry


class StrategyList(ApiView):
    @reads("list_strategies", "Strategies and their parameters", serializers.Strategy(many=True))
    def get(self, request: Request) -> Response:
        return Response([msgspec.to_builtins(registry.describe(name)) for name in registry.names()])


class EventList(ApiView):
    query_parameters = ("fleet", "replica", "kind", "search", "page", "page_size")

    @lists(
        "list_events",
        "What happened, newest first",
        serializers.Event,
        OpenApiParameter("fleet", str, description="Only of this fleet."),
        OpenApiParameter("replica", str, description="Only of the replica of this name."),
        OpenApiParameter("kind", str, enum=Event.Kind.values, description="Only of this kind."),
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        asked = request.query_params
        rows = Event.objects.select_related("fleet", "replica").order_by("-at", "-id")
        if fleet := asked.get("fleet"):
            rows = rows.filter(fleet=fleet_named(fleet))
        if replica := asked.get("replica"):
            rows = rows.filter(replica__name=replica)
        if kind := asked.get("kind"):
            if kind not in Event.Kind.values:
                raise exceptions.ParseError(f"kind is one of {', '.join(Event.Kind.values)}, not {kind!r}.")
            rows = rows.filter(kind=kind)
        if wanted := asked.get("search"):
            rows = rows.filter(text__icontains=wanted)
        return self.paged(request, rows, lambda page: [represent.event(row) for row in page])


class RedisAway(exceptions.APIException):
    status_code = 503
    default_detail = "Redis is away: there are no live numbers at the moment."


class OverviewLive(ApiView):
    @reads("get_live", "The last overview frame", serializers.Live, live=True)
    def get(self, request: Request) -> Response:
        return _frame(live.overview)


class FleetLive(ApiView):
    @reads("get_fleet_live", "The last frame of a fleet", serializers.Live, live=True)
    def get(self, request: Request, fleet: str) -> Response:
        fleet_named(fleet)
        return _frame(live.fleet, fleet)


def _frame(read: Any, *args: str) -> Response:
    try:
        return Response(read(*args))
    except RedisError as error:
        raise RedisAway from error
