"""``/live`` and what ends in it: the last frames of the overview, fleets and client keys."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import live
from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.services.client_keys import key_of
from controlplane.services.lookup import fleet_named


class LiveSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField(allow_null=True, help_text="Age of the frame; null: there is none.")
    frame = serializers.JSONField(help_text="The frame that pages get once a second; null: there is none.")


class OverviewLiveView(ApiView):
    limited = ("GET",)

    @reads("get_live", "The last overview frame", LiveSerializer, live=True)
    def get(self, request: Request) -> Response:
        return _frame(live.overview, self.access.fleet_names())


class ClientKeysLiveView(ApiView):
    @reads("get_client_keys_live", "The last frame of the client keys", LiveSerializer, live=True)
    def get(self, request: Request) -> Response:
        return _frame(live.client_keys)


class ClientKeyLiveView(ApiView):
    @reads("get_client_key_live", "Live numbers of one client key", LiveSerializer, live=True)
    def get(self, request: Request, key: int) -> Response:
        row = key_of(key)
        return _frame(live.client_key, row.pk, row.name)


class FleetLiveView(ApiView):
    @reads("get_fleet_live", "The last frame of a fleet", LiveSerializer, live=True)
    def get(self, request: Request, fleet: str) -> Response:
        fleet_named(fleet)
        return _frame(live.fleet, fleet)


def _frame(read: Any, *args: Any) -> Response:
    with redis_needed():
        return Response(read(*args))
