"""``/fleets/{fleet}/replicas`` and ``/fleets/{fleet}/replicas/{replica}``."""

import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import orjson
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import filters, live, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, confirmation, expected_version, versioned
from controlplane.api.fleets import WAIT_S
from controlplane.api.openapi_operations import CONFIRM, SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.serializers.replicas import ReplicaChangedSerializer, ReplicaSerializer
from controlplane.api.trial_probes import TRIAL, represented, trial_wanted
from controlplane.models import Fleet, Replica
from controlplane.probes import trial_service
from controlplane.services import replicas
from controlplane.services.errors import NotFound
from controlplane.services.lookup import fleet_named, replica_named
from controlplane.services.replicas import ReplicaChange
from routing.contract.names import is_slug


def _fleet_to_join(request: Request, name: str, replica: Mapping[str, Any]) -> Fleet:
    """Raises NotFound with the command that makes the fleet, where the name could be one."""
    try:
        return fleet_named(name)
    except NotFound as missing:
        if not is_slug(name):
            raise
        one = {"name": replica.get("name", "a"), "url": replica.get("url", "http://10.0.0.1:8000")}
        new_fleet = {"name": name, "protocol": "openai", "replicas": [one]}
        raise NotFound(
            f'{missing.detail} To create it with this replica: curl -X POST -H "Authorization: Token $TOKEN" '
            f'-H "Content-Type: application/json" -d {shlex.quote(orjson.dumps(new_fleet).decode())} '
            f"{request.build_absolute_uri(reverse('api-fleets'))}"
        ) from None


def _answer(result: ReplicaChange, status: int = 200, more: Mapping[str, Any] | None = None) -> Response:
    outcome = presenters.outcome(result.change, WAIT_S)
    fleet = result.change.fleet
    # Read after the wait, so that what is left in flight is as new as can be.
    row = replica_named(fleet, result.replica.name)
    seen = live.fresh_replicas(fleet.name)
    data = {**presenters.replica(row, seen), **outcome, **(more or {})}
    return versioned(data, row.edit_version, status)


class ReplicaList(ApiView):
    query_parameters = ("search", "page", "page_size")
    write_parameters = {"POST": ("confirm", "trial")}

    @lists("list_replicas", "Replicas of a fleet", ReplicaSerializer, SEARCH)
    def get(self, request: Request, fleet: str) -> Response:
        row = fleet_named(fleet)
        rows = Replica.objects.filter(fleet=row).select_related("hardware", "health", "owner__source")
        rows = rows.order_by("name").prefetch_related("accelerators")
        rows = rows.filter(filters.search(request, "name", "url"))
        seen = live.fresh_replicas(fleet)
        return self.paged(request, rows, lambda page: presenters.replicas(page, seen))

    @creates(
        "register_replica",
        "Register a replica; the response has a trial probe of it",
        request_schemas.NEW_REPLICA,
        ReplicaChangedSerializer,
        CONFIRM,
        TRIAL,
    )
    def post(self, request: Request, fleet: str) -> Response:
        """A trial that fails refuses nothing: models load for minutes. A forbidden address does."""
        body = body_of(request)
        self.check_settings(body, fleet=fleet)
        row = _fleet_to_join(request, fleet, body)
        found = None
        if trial_wanted(request):
            wanted = replicas.registrable(row, body)
            found = trial_service.of_replica(row, wanted["url"], wanted.get("credential") or "")
        with self.write_of_settings(body, fleet=fleet):
            actor = request.user.get_username()
            result = replicas.register(fleet, body, actor, confirm=confirmation(request))
        return _answer(result, 201, {"trial": represented(found) if found else None})


OPERATED = frozenset({"weight", "admin_state", "move"})
"""Fields of a replica with which traffic is steered; the others say what it is."""


class ReplicaDetail(ApiView):
    roles = {"PATCH": Role.OPERATE}
    write_parameters = {"PATCH": ("confirm", "trial")}

    @reads("get_replica", "One replica", ReplicaSerializer)
    def get(self, request: Request, fleet: str, replica: str) -> Response:
        row = replica_named(fleet_named(fleet), replica)
        return versioned(presenters.replica(row, live.fresh_replicas(fleet)), row.edit_version)

    @changes(
        "change_replica",
        "Change weight, admin state or URL (null: not set); a new URL gets a trial probe",
        request_schemas.REPLICA_CHANGES,
        ReplicaChangedSerializer,
        CONFIRM,
        TRIAL,
    )
    def patch(self, request: Request, fleet: str, replica: str) -> Response:
        """A new address, or one with a new credential, is tried as that of a new replica is."""
        body, version, found = body_of(request), expected_version(request), None
        redefines = bool(body.keys() - OPERATED)
        if redefines:
            self.check_role(Role.ADMINISTER, fleet)
            self.check_settings(body, fleet=fleet, replica=replica)
        if trial_wanted(request) and body.keys() & {"url", "credential"}:
            row = fleet_named(fleet)
            if moved := replicas.moved_to(row, replica, body, version):
                found = trial_service.of_replica(row, *moved)
        actor = request.user.get_username()
        with self.write_of_settings(body, fleet=fleet, replica=replica) if redefines else nullcontext():
            result = replicas.update(
                fleet, replica, body, actor, if_version=version, confirm=confirmation(request)
            )
        return _answer(result, more={"trial": represented(found) if found else None})

    @deletes("remove_replica", "Remove a replica; its requests in flight finish")
    def delete(self, request: Request, fleet: str, replica: str) -> Response:
        replicas.delete(fleet, replica, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
