"""``/alerts``, its rules, destinations and silences."""

import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.alerts import destinations, last_evaluation, live_counts, rule_book, silences, store
from controlplane.alerts.destinations import WrittenDestination
from controlplane.alerts.rule_book import BookEntry
from controlplane.alerts.silencing import silence_of
from controlplane.api import filters, request_schemas
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.openapi_operations import asks, changes, creates, deletes, lists, reads, removes
from controlplane.api.serializers.alerts import (
    AlertCountsSerializer,
    AlertDestinationSerializer,
    AlertDestinationWrittenSerializer,
    AlertRuleSerializer,
    AlertSerializer,
    AlertSilenceSerializer,
    AlertTestSerializer,
)
from controlplane.datastores import redis
from controlplane.models import Alert, AlertDestination, AlertSilence
from controlplane.services.errors import FieldError, Invalid, NotFound

OPEN = (Alert.AlertState.FIRING, Alert.AlertState.PENDING)
_URGENCY = Case(
    When(state=Alert.AlertState.FIRING, severity="critical", then=Value(0)),
    When(state=Alert.AlertState.FIRING, then=Value(1)),
    When(state=Alert.AlertState.PENDING, then=Value(2)),
    default=Value(3),
    output_field=IntegerField(),
)


class AlertList(ApiView):
    limited = ("GET",)
    query_parameters = ("state", "fleet", "rule", "page", "page_size")

    @lists(
        "list_alerts",
        "Alerts: those that fire first, critical ones before others, then the newest",
        AlertSerializer,
        OpenApiParameter(
            "state",
            str,
            description="Only these states, separated by commas: firing, pending, resolved. Not set: firing, "
            "pending.",
        ),
        OpenApiParameter("fleet", str, description="Only alerts of this fleet."),
        OpenApiParameter("rule", str, description="Only alerts of this rule."),
    )
    def get(self, request: Request) -> Response:
        rows = Alert.objects.filter(self.access.rows("fleet_name"), state__in=_states(request))
        for name, column in (("fleet", "fleet_name"), ("rule", "rule")):
            if value := filters.text(request, name):
                rows = rows.filter(**{column: value})
        return self.paged(request, rows.order_by(_URGENCY, "-since", "-id"), _alerts)


class AlertCounts(ApiView):
    limited = ("GET",)

    @reads("count_alerts", "How many alerts fire that are not silenced", AlertCountsSerializer)
    def get(self, request: Request) -> Response:
        counts = live_counts.seen_by(live_counts.by_fleet(time.time()), self.access.fleet_names())
        try:
            age_s = last_evaluation.age_s()
        except redis.LOST:
            age_s = None
        return Response({**msgspec.to_builtins(counts), "evaluated_age_s": age_s})


class AlertRuleList(ApiView):
    limited = ("GET",)
    query_parameters = ("page", "page_size")

    @lists("list_alert_rules", "Alert rules: the built-in ones, then your own", AlertRuleSerializer)
    def get(self, request: Request) -> Response:
        found = cast("QuerySet[Any]", rule_book.seen_entries())
        return self.paged(request, found, lambda page: [_rule(one) for one in page])

    @creates("create_alert_rule", "Create a threshold", request_schemas.NEW_ALERT_RULE, AlertRuleSerializer)
    def post(self, request: Request) -> Response:
        entry = rule_book.create(body_of(request), request.user.get_username())
        return versioned(_rule(entry), entry.version, 201)


class AlertRuleDetail(ApiView):
    limited = ("GET",)

    @reads("get_alert_rule", "One alert rule", AlertRuleSerializer)
    def get(self, request: Request, name: str) -> Response:
        entry = rule_book.entry_named(name)
        return versioned(_rule(entry), entry.version)

    @changes(
        "change_alert_rule",
        "Change a threshold; of a built-in rule its severity, its times and whether it is on",
        request_schemas.ALERT_RULE_CHANGES,
        AlertRuleSerializer,
    )
    def patch(self, request: Request, name: str) -> Response:
        actor, version = request.user.get_username(), expected_version(request)
        entry = rule_book.update(name, body_of(request), actor, if_version=version)
        return versioned(_rule(entry), entry.version)

    @deletes("delete_alert_rule", "Delete a threshold; a built-in rule is as it came again")
    def delete(self, request: Request, name: str) -> Response:
        rule_book.delete(name, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)


class AlertDestinationList(ApiView):
    query_parameters = ("page", "page_size")

    @lists("list_alert_destinations", "Where notifications of alerts go", AlertDestinationSerializer)
    def get(self, request: Request) -> Response:
        return self.paged(request, _destinations(), lambda page: [_destination(row) for row in page])

    @creates(
        "create_alert_destination",
        "Create a destination; only this response shows its signing secret",
        request_schemas.NEW_ALERT_DESTINATION,
        AlertDestinationWrittenSerializer,
    )
    def post(self, request: Request) -> Response:
        written = destinations.create(body_of(request), request.user.get_username())
        return _written(written, 201)


class AlertDestinationDetail(ApiView):
    @reads("get_alert_destination", "One destination", AlertDestinationSerializer)
    def get(self, request: Request, name: str) -> Response:
        row = destinations.destination_named(name)
        return versioned(_destination(_destinations().get(pk=row.pk)), row.edit_version)

    @changes(
        "change_alert_destination",
        "Change a destination, or have a new signing secret made",
        request_schemas.ALERT_DESTINATION_CHANGES,
        AlertDestinationWrittenSerializer,
    )
    def patch(self, request: Request, name: str) -> Response:
        actor, version = request.user.get_username(), expected_version(request)
        return _written(destinations.update(name, body_of(request), actor, if_version=version), 200)

    @deletes("delete_alert_destination", "Delete a destination, and what waits for it")
    def delete(self, request: Request, name: str) -> Response:
        destinations.delete(name, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)


class AlertDestinationTest(ApiView):
    roles = {"POST": Role.OPERATE}

    @asks(
        "test_alert_destination",
        "Send a message that says it is a test, and say what was answered",
        None,
        AlertTestSerializer,
    )
    def post(self, request: Request, name: str) -> Response:
        result = destinations.test(name, request.user.get_username())
        return Response({"taken": result.taken, "answer": result.words})


class AlertSilenceList(ApiView):
    limited = ("GET", "POST")
    roles = {"POST": Role.OPERATE}
    query_parameters = ("page", "page_size")

    @lists("list_alert_silences", "Silences, the one that ends last first", AlertSilenceSerializer)
    def get(self, request: Request) -> Response:
        rows = AlertSilence.objects.filter(self.access.rows("fleet_name"))
        return self.paged(request, rows, lambda page: [_silence(row) for row in page])

    @creates(
        "create_alert_silence",
        "Silence alerts for a while: of one fleet, or, with a role for all fleets, any",
        request_schemas.NEW_ALERT_SILENCE,
        AlertSilenceSerializer,
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        fleet = body.get("fleet")
        if not (isinstance(fleet, str) and fleet) and (self.access.everywhere or 0) < Role.OPERATE:
            words = f"name the fleet: your role is {self.access.text()}, and a silence without one is for all"
            raise Invalid([FieldError("/fleet", words)])
        self.check_role(Role.OPERATE, fleet if isinstance(fleet, str) and fleet else None)
        row = silences.create(body, request.user.get_username())
        return Response(_silence(row), status=201)


class AlertSilenceDetail(ApiView):
    limited = ("GET", "DELETE")
    roles = {"DELETE": Role.OPERATE}

    @reads("get_alert_silence", "One silence", AlertSilenceSerializer)
    def get(self, request: Request, silence: int) -> Response:
        return Response(_silence(self._row(silence)))

    @removes("end_alert_silence", "End a silence now: what still fires is told")
    def delete(self, request: Request, silence: int) -> Response:
        row = self._row(silence)
        self.check_role(Role.OPERATE, row.fleet_name or None)
        silences.end(silence, request.user.get_username())
        return Response(status=204)

    def _row(self, silence: int) -> AlertSilence:
        row = silences.silence_with(silence)
        if not AlertSilence.objects.filter(self.access.rows("fleet_name"), pk=row.pk).exists():
            raise NotFound(f"There is no silence {silence}.")
        return row


def _states(request: Request) -> list[str]:
    """Raises ParseError."""
    written = request.query_params.get("state")
    if written is None:
        return list(OPEN)
    states = [state.strip() for state in written.split(",")]
    for state in states:
        if state not in Alert.AlertState.values:
            raise ParseError(f"state must be of {', '.join(Alert.AlertState.values)}, not {state[:40]!r}.")
    return states


def _alerts(rows: Iterable[Any]) -> list[dict[str, Any]]:
    now = time.time()
    covering = store.silences()
    known = {row.pk: row for row in AlertSilence.objects.filter(pk__in=[one.id for one in covering])}
    found = []
    for row in rows:
        over = row.state == Alert.AlertState.RESOLVED
        silence = None if over else silence_of(store.open_alert(row), covering, now)
        found.append(_alert(row, known.get(silence.id) if silence is not None else None))
    return found


def _alert(row: Alert, silence: AlertSilence | None) -> dict[str, Any]:
    return {
        "id": row.uid,
        "rule": row.rule,
        "title": row.title,
        "state": row.state,
        "severity": row.severity,
        "fleet": row.fleet_name or None,
        "replica": row.replica_name or None,
        "part": row.part or None,
        "why": row.words,
        "value": row.value,
        "unit": row.unit,
        "since": row.since,
        "fired_at": row.fired_at,
        "resolved_at": row.resolved_at,
        "silence": None
        if silence is None
        else {
            "id": silence.pk,
            "reason": silence.reason,
            "ends_at": silence.ends_at,
            "created_by": silence.created_by,
        },
    }


def _rule(entry: BookEntry) -> dict[str, Any]:
    rule, row = entry.rule, entry.row
    own: Mapping[str, Any] = rule_book.settings_of(row) if row is not None and not row.built_in else {}
    return {
        "name": rule.name,
        "title": rule.title,
        "about": rule.about,
        "built_in": not own,
        "changed": row is not None and row.built_in,
        "enabled": entry.enabled,
        "severity": rule.severity,
        "for_s": rule.for_s,
        "keep_s": rule.keep_s,
        **{name: own.get(name) for name in ("fleet", "metric", "comparison", "value", "clear_value")},
        "unit": rule.unit,
    }


def _destinations() -> QuerySet[AlertDestination]:
    waiting = Count("deliveries", filter=Q(deliveries__done_at=None))
    return AlertDestination.objects.annotate(waiting=waiting).order_by("name")


def _destination(row: AlertDestination) -> dict[str, Any]:
    return {
        "name": row.name,
        **destinations.settings_of(row),
        "waiting": getattr(row, "waiting", 0),
        "failing_since": row.failing_since,
        "last_answer": row.last_answer,
        "last_taken": row.last_taken,
        "last_sent_at": row.last_sent_at,
        "created_by": row.created_by,
        "created_at": row.created_at,
    }


def _written(written: WrittenDestination, status: int) -> Response:
    row = _destinations().get(pk=written.row.pk)
    response = versioned({**_destination(row), "secret": written.secret or None}, row.edit_version, status)
    response["Cache-Control"] = "no-store"
    return response


def _silence(row: AlertSilence) -> dict[str, Any]:
    return {
        "id": row.pk,
        "rule": row.rule or None,
        "fleet": row.fleet_name or None,
        "replica": row.replica_name or None,
        "part": row.part or None,
        "reason": row.reason,
        "created_by": row.created_by,
        "created_at": row.created_at,
        "ends_at": row.ends_at,
        "ended_by": row.ended_by or None,
        "active": row.ends_at > timezone.now(),
    }
