"""``/fleets`` and ``/fleets/{fleet}``."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, live, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, confirmation, expected_version, versioned
from controlplane.api.openapi_operations import CONFIRM, SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.serializers.fleets import (
    FleetChangedSerializer,
    FleetCreatedSerializer,
    FleetSerializer,
)
from controlplane.api.trial_probes import TRIAL, represented, trial_wanted
from controlplane.models import Fleet
from controlplane.probes import settings_trial, trial_service
from controlplane.services import fleets
from controlplane.services.changes import Change
from controlplane.services.errors import Conflict
from controlplane.services.lookup import fleet_named

WAIT_S = 0.25
"""A write waits this long for proxy workers to say that they have it."""


def _answer(change: Change, status: int = 200, more: Mapping[str, Any] | None = None) -> Response:
    data: dict[str, Any] = {
        **presenters.fleet(change.fleet),
        **presenters.outcome(change, WAIT_S),
        **(more or {}),
    }
    return versioned(data, change.fleet.edit_version, status)


class FleetList(ApiView):
    limited = ("GET", "POST")
    query_parameters = ("search", "page", "page_size")
    write_parameters = {"POST": ("confirm", "trial")}

    @lists("list_fleets", "List fleets", FleetSerializer, SEARCH)
    def get(self, request: Request) -> Response:
        rows = Fleet.objects.filter(self.access.rows("name"))
        rows = rows.filter(filters.search(request, "name", "aliases", "adapters", "labels"))
        return self.paged(request, rows, presenters.fleets)

    @creates(
        "create_fleet",
        "Create a fleet with its replicas; the response has a trial probe of each",
        request_schemas.NEW_FLEET,
        FleetCreatedSerializer,
        CONFIRM,
        TRIAL,
    )
    def post(self, request: Request) -> Response:
        """As registering a replica: a trial that fails refuses nothing, a forbidden address does."""
        body = body_of(request)
        labels = fleets.labels_in(body)
        self.check_settings(body, labels)
        tried = trial_service.of_new_fleet(fleets.creatable(body)) if trial_wanted(request) else {}
        with self.write_of_settings(body, labels):
            change = fleets.create(body, request.user.get_username(), confirm=confirmation(request))
        return _answer(change, 201, {"trials": {name: represented(one) for name, one in tried.items()}})


def _check_confirmed(request: Request, name: str) -> None:
    """A fleet that clients use at this moment goes only when its name is said twice."""
    confirmed = confirmation(request)
    if confirmed and confirmed != name:
        raise exceptions.ParseError(f'confirm is "{confirmed[:80]}", but the name of the fleet is "{name}".')
    seen = live.fresh_summary(name) if not confirmed else None
    if seen is not None and (seen.in_flight or seen.rps or seen.p50_s is not None):
        traffic = f"{seen.rps:.3g} requests a second, {seen.in_flight} in flight"
        if not seen.rps and not seen.in_flight:
            traffic = "it answered requests within the last seconds"
        replicas = "its replica" if seen.replicas == 1 else f"its {seen.replicas} replicas"
        raise Conflict(
            f"Fleet {name} has live traffic: {traffic}. Deleting it ends service to its clients, and "
            f"removes {replicas} and all revisions permanently. To delete it anyway: "
            f"DELETE {request.path}?confirm={name}"
        )


class FleetDetail(ApiView):
    write_parameters = {"DELETE": ("confirm",), "PATCH": ("confirm", "trial")}

    @reads("get_fleet", "One fleet", FleetSerializer)
    def get(self, request: Request, fleet: str) -> Response:
        row = fleet_named(fleet)
        return versioned(presenters.fleet(row), row.edit_version)

    @changes(
        "change_fleet",
        "Change aliases, protocol, match, probe, TLS, credential or default (JSON merge patch)",
        request_schemas.FLEET_CHANGES,
        FleetChangedSerializer,
        CONFIRM,
        TRIAL,
    )
    def patch(self, request: Request, fleet: str) -> Response:
        """Settings with which the probes of most replicas would fail are confirmed first."""
        body, version, confirm = body_of(request), expected_version(request), confirmation(request)
        labels = fleets.labels_in(body) if "labels" in body else None
        self.check_settings(body, labels, fleet=fleet)
        if trial_wanted(request):
            settings_trial.refuse_lockout(fleet, body, if_version=version, confirm=confirm)
        with self.write_of_settings(body, labels, fleet=fleet):
            actor = request.user.get_username()
            change = fleets.update(fleet, body, actor, if_version=version, confirm=confirm)
        return _answer(change)

    @deletes(
        "delete_fleet",
        "Delete a fleet with its replicas and revisions",
        OpenApiParameter("confirm", str, description="The fleet's name; needed while it has live traffic."),
    )
    def delete(self, request: Request, fleet: str) -> Response:
        _check_confirmed(request, fleet_named(fleet).name)
        fleets.delete(fleet, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
