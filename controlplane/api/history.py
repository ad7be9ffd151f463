"""``/fleets/{fleet}/history``: series of a fleet's measures, as the conductor keeps them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.filters import moment
from controlplane.api.openapi_operations import SINCE, reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.datastores import redis
from controlplane.services.lookup import fleet_named
from controlplane.telemetry import history
from controlplane.telemetry.frames import Point

METRICS = tuple(name for name in Point.__struct_fields__ if name != "at")
BY_REASON = "error_reasons"
"""This metric is a series for each reason there was, under ``error_reasons.REASON``."""
STEPS = {1: history.FINE_POINTS, history.COARSE_S: history.COARSE_POINTS * history.COARSE_S}
"""Step in seconds → how many seconds it reaches back. No others: percentiles cannot be averaged."""


class HistorySerializer(ReadOnlySerializer):
    step_s = serializers.IntegerField(help_text="Seconds from one value to the next.")
    at = serializers.ListField(
        child=serializers.FloatField(), help_text="When each value was taken: Unix seconds, oldest first."
    )
    values = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField(allow_null=True)),
        help_text="By metric, one value for each time in `at`; null: there was nothing to measure.",
    )


class FleetHistoryView(ApiView):
    query_parameters = ("metric", "since", "step")

    @reads(
        "get_fleet_history",
        "Series of a fleet's measures",
        HistorySerializer,
        OpenApiParameter(
            "metric", str, description=f"Separated by commas, of: {', '.join(METRICS)}. Not set: all."
        ),
        SINCE,
        OpenApiParameter(
            "step",
            int,
            enum=list(STEPS),
            description="Seconds: 1 reaches back 15 minutes, 10 reaches back 24 hours. Not set: 1 where "
            "`since` is within 15 minutes or not set, else 10.",
        ),
        live=True,
    )
    def get(self, request: Request, fleet: str) -> Response:
        fleet_named(fleet)
        metrics, since = _metrics(request), moment(request, "since")
        oldest = since.timestamp() if since else 0.0
        step = _step(request, None if since is None else timezone.now() - since)
        with redis_needed():
            kept = history.read(redis.client(), fleet, coarse=step == history.COARSE_S)
        points = [point for point in kept if point.at >= oldest]
        values: dict[str, list[Any]] = {
            name: [getattr(point, name) for point in points] for name in metrics if name != BY_REASON
        }
        if BY_REASON in metrics:
            for reason in sorted({reason for point in points for reason in point.error_reasons}):
                values[f"{BY_REASON}.{reason}"] = [point.error_reasons.get(reason, 0.0) for point in points]
        return Response({"step_s": step, "at": [point.at for point in points], "values": values})


def _metrics(request: Request) -> tuple[str, ...]:
    """Raises ParseError."""
    written = request.query_params.get("metric")
    if written is None:
        return METRICS
    names = tuple(dict.fromkeys(name.strip() for name in written.split(",")))
    for name in names:
        if name not in METRICS:
            raise ParseError(f"metric must be one of {', '.join(METRICS)}, not {name[:60]!r}.")
    return names


def _step(request: Request, age: timedelta | None) -> int:
    """Raises ParseError. ``age``: how far back is asked; ``None``: not said."""
    written = request.query_params.get("step")
    if written is None:
        return 1 if age is None or age.total_seconds() <= STEPS[1] else history.COARSE_S
    for step in STEPS:
        if written == str(step):
            return step
    raise ParseError(f"step must be one of {', '.join(map(str, STEPS))} (seconds), not {written[:60]!r}.")
