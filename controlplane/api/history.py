"""``…/history``: series of the measures of a fleet, a replica or a client key."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request

from controlplane.api.base import ApiView
from controlplane.api.filters import moment
from controlplane.api.openapi_operations import SINCE, reads
from controlplane.api.redis_unavailable import RedisUnavailable, redis_needed
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.datastores import redis
from controlplane.models.fleet_history import SLOT_S
from controlplane.services.client_keys import key_of
from controlplane.services.lookup import fleet_named, replica_named
from controlplane.telemetry import history, kept_history, minute_history
from controlplane.telemetry.history_series import Series, coarser, kinds_of, of_points, of_rows
from controlplane.telemetry.measures import (
    FIELDS,
    REASONS,
    HistoryRow,
    HistorySubject,
    of_fleet,
    of_key,
    of_replica,
)
from controlplane.telemetry.minute_collector import MINUTE_S
from controlplane.telemetry.minute_history import REACH_S
from routing.contract.key_limit_rules import KEY_LIMITS

DAY_S = 86_400
FINE_S = history.FINE_POINTS
_MOMENTS_S = 5.0
REPLICA_METRICS = tuple(
    name for name in FIELDS if name not in ("waiting", "retries_per_s") and not name.startswith("queue_")
)
_OF_KEYS = ("p50_s", "p95_s", "p99_s", "first_token_p50_s", "first_token_p95_s", "first_token_p99_s")
KEY_METRICS = {
    "rps": "rps",
    "limited_per_s": "errors_per_s",
    "tokens_per_s": "output_tokens_per_s",
    "limits": REASONS,
    "errors_per_s": REASONS,
    "error_reasons": REASONS,
    **{name: name for name in _OF_KEYS},
}
"""Metric → the field that has it in a key's rows. Refusals by limit are among its reasons of errors."""


class HistorySerializer(ReadOnlySerializer):
    step_s = serializers.IntegerField(help_text="Seconds from one value to the next.")
    at = serializers.ListField(
        child=serializers.FloatField(),
        help_text="When the time of each value ended: Unix seconds, oldest first.",
    )
    values = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField(allow_null=True)),
        help_text="By metric, one value for each time in `at`; null: there was nothing to measure.",
    )


def _metric(names: Sequence[str]) -> OpenApiParameter:
    return OpenApiParameter(
        "metric", str, description=f"Separated by commas, of: {', '.join(names)}. Not set: all."
    )


class FleetHistoryView(ApiView):
    query_parameters = ("metric", "since", "step")

    @reads(
        "get_fleet_history",
        "Series of a fleet's measures",
        HistorySerializer,
        _metric(FIELDS),
        SINCE,
        OpenApiParameter(
            "step",
            int,
            description="Seconds: 1 reaches back 15 minutes, 10 and multiples of 60 reach back 24 hours, "
            "multiples of 300 as long as history is kept. Not set: 1, 10 or 300, by `since`.",
        ),
        live=True,
    )
    def get(self, request: Request, fleet: str) -> HttpResponse:
        row = fleet_named(fleet)
        metrics, since = _metrics(request, FIELDS), moment(request, "since")
        # An age that was asked for has grown since, by moments.
        age_s = None if since is None else (timezone.now() - since).total_seconds() - _MOMENTS_S
        step = _fleet_step(request, age_s)
        oldest = since.timestamp() if since else 0.0
        if step in (1, history.COARSE_S):
            with redis_needed():
                kept = history.read(redis.client(), fleet, coarse=step != 1)
            return _response(step, of_points([point for point in kept if point.at >= oldest], metrics))
        if since is None or age_s is None or age_s <= REACH_S:
            begin = oldest or timezone.now().timestamp() - REACH_S
            step, rows = _joined([], of_fleet(fleet), begin, step, metrics)
            return _response(step, of_rows(rows, metrics))
        rows = kept_history.read(row.pk, since, for_longer_times=step > SLOT_S)
        # What is not in the database yet.
        begin = rows[-1].at + 0.5 if rows else oldest
        step, rows = _joined(rows, of_fleet(fleet), begin, step, metrics)
        return _response(step, of_rows(rows, metrics))


class ReplicaHistoryView(ApiView):
    query_parameters = ("metric", "since", "step")

    @reads(
        "get_replica_history",
        "Series of a replica's measures",
        HistorySerializer,
        _metric(REPLICA_METRICS),
        SINCE,
        OpenApiParameter("step", int, description="Seconds, a multiple of 60. Not set: 60."),
        live=True,
    )
    def get(self, request: Request, fleet: str, replica: str) -> HttpResponse:
        row = replica_named(fleet_named(fleet), replica)
        metrics = _metrics(request, REPLICA_METRICS)
        return _response(*_minutes(request, of_replica(str(row.uid)), metrics))


class ClientKeyHistoryView(ApiView):
    query_parameters = ("metric", "since", "step")

    @reads(
        "get_client_key_history",
        "Series of a client key's use",
        HistorySerializer,
        _metric(tuple(KEY_METRICS)),
        SINCE,
        OpenApiParameter("step", int, description="Seconds, a multiple of 60. Not set: 60."),
        live=True,
    )
    def get(self, request: Request, key: int) -> HttpResponse:
        names = _metrics(request, tuple(KEY_METRICS))
        subject = of_key(str(key_of(key).pk))
        step, series = _minutes(request, subject, list(dict.fromkeys(KEY_METRICS[name] for name in names)))
        return _response(step, Series(series.at, _as_of_key(series, names)))


def _as_of_key(series: Series, names: Sequence[str]) -> dict[str, list[Any]]:
    by_reason = {
        name.partition(".")[2]: values
        for name, values in series.values.items()
        if name.startswith(f"{REASONS}.")
    }
    errors = {reason: values for reason, values in by_reason.items() if reason not in KEY_LIMITS}
    found: dict[str, list[Any]] = {}
    for name in names:
        if name == "limits":
            found |= {f"limits.{limit}": by_reason[limit] for limit in KEY_LIMITS if limit in by_reason}
        elif name == "error_reasons":
            found |= {f"{REASONS}.{reason}": values for reason, values in errors.items()}
        elif name == "errors_per_s":
            each = zip(*errors.values(), strict=True) if errors else ((),) * len(series.at)
            found[name] = [round(sum(values), 6) for values in each]
        else:
            found[name] = series.values[KEY_METRICS[name]]
    return found


def _minutes(request: Request, subject: HistorySubject, metrics: Sequence[str]) -> tuple[int, Series]:
    """Raises ParseError."""
    since = moment(request, "since")
    written = request.query_params.get("step")
    step = MINUTE_S if written is None else _multiple(written, MINUTE_S, "")
    begin = since.timestamp() if since else timezone.now().timestamp() - REACH_S
    step, rows = _joined([], subject, begin, step, metrics)
    return step, of_rows(rows, metrics)


def _joined(
    rows: list[HistoryRow], subject: HistorySubject, begin: float, step: int, metrics: Sequence[str]
) -> tuple[int, list[HistoryRow]]:
    """``rows`` of the database, and what Redis has from ``begin`` on, at the step that was asked for, or that
    they have at least."""
    now, kinds = timezone.now().timestamp(), kinds_of(metrics)
    minutes: list[HistoryRow] = []
    # Of months, the last minutes may be missing while Redis is away.
    with suppress(RedisUnavailable) if rows else nullcontext(), redis_needed():
        minutes = minute_history.read(redis.client(), subject, begin)
    if rows:
        minutes = coarser(minutes, SLOT_S, now, kinds, with_totals=False)
    both = [*rows, *minutes]
    longest = max((row.seconds for row in minutes), default=MINUTE_S)
    if step <= longest or (rows and step == SLOT_S):
        return max(step, longest), both
    return step, coarser(both, step, now, kinds, with_totals=False)


def _response(step: int, series: Series) -> HttpResponse:
    # Encoded here: of 90 days there are 26,000 values for each metric.
    body = msgspec.json.encode({"step_s": step, "at": series.at, "values": series.values})
    return HttpResponse(body, content_type="application/json")


def _metrics(request: Request, allowed: Sequence[str]) -> tuple[str, ...]:
    """Raises ParseError."""
    written = request.query_params.get("metric")
    if written is None:
        return tuple(allowed)
    names = tuple(dict.fromkeys(name.strip() for name in written.split(",")))
    for name in names:
        if name not in allowed:
            raise ParseError(f"metric must be one of {', '.join(allowed)}, not {name[:60]!r}.")
    return names


def _fleet_step(request: Request, age_s: float | None) -> int:
    """Raises ParseError. ``age_s``: how far back is asked; ``None``: not said."""
    written = request.query_params.get("step")
    if written is None:
        return 1 if age_s is None or age_s <= FINE_S else history.COARSE_S if age_s <= REACH_S else SLOT_S
    if written in ("1", str(history.COARSE_S)):
        return int(written)
    if age_s is not None and age_s > REACH_S:
        return _multiple(written, SLOT_S, " for more than 24 hours")
    return _multiple(written, MINUTE_S, "1, 10 or ")


def _multiple(written: str, of: int, words: str) -> int:
    """Raises ParseError."""
    if written.isascii() and written.isdecimal() and len(written) < 6:
        step = int(written)
        if 0 < step <= DAY_S and step % of == 0:
            return step
    before, after = (words, "") if not words.startswith(" ") else ("", words)
    raise ParseError(
        f"step must be {before}a multiple of {of} up to {DAY_S} (seconds){after}, not {written[:60]!r}."
    )
