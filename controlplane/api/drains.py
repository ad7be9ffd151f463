"""``/drains``: all replicas on a host or an accelerator, of whatever fleet, at once."""

import time
from collections.abc import Iterable
from typing import Any

import msgspec
from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import live, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, confirmation
from controlplane.api.fleets import WAIT_S
from controlplane.api.openapi_operations import CONFIRM, carries_out, reads
from controlplane.api.permissions import ASK
from controlplane.api.serializers.drains import DrainChangedSerializer, DrainSerializer
from controlplane.models import Replica
from controlplane.publishing import publisher
from controlplane.services import drain_rules, drains
from controlplane.services.changes import Change
from controlplane.services.drain_rules import WantedDrain
from controlplane.services.errors import Forbidden

_HOST = OpenApiParameter("host", str, description="The replicas on this host.")
_ACCELERATOR = OpenApiParameter("accelerator", str, description="The replicas on this accelerator.")


def represented(rows: Iterable[Replica]) -> dict[str, Any]:
    """One question to Redis for each fleet."""
    seen: dict[str, live.LiveReplicas] = {}
    found = []
    for row in rows:
        fleet = row.fleet.name
        if fleet not in seen:
            seen[fleet] = live.fresh_replicas(fleet)
        one = seen[fleet].seen.get(row.name)
        found.append(
            {
                "fleet": fleet,
                "replica": row.name,
                "admin_state": row.admin_state,
                "move": row.move,
                "in_flight": one.live.in_flight if one else None,
                "moving": msgspec.to_builtins(one.live.moving) if one else None,
                "safe_to_stop": one.safe_to_stop and row.admin_state == one.live.admin_state if one else None,
            }
        )
    known = [one["safe_to_stop"] for one in found]
    return {"replicas": found, "safe_to_stop": None if None in known else all(known)}


class Drains(ApiView):
    limited = ("GET", "POST")
    roles = {"POST": Role.OPERATE}
    query_parameters = ("host", "accelerator")
    write_parameters = {"POST": ("confirm",)}

    @reads(
        "get_drain",
        "Replicas on a host or an accelerator: what a drain would do, or what is left",
        DrainSerializer,
        _HOST,
        _ACCELERATOR,
    )
    def get(self, request: Request) -> Response:
        wanted = drain_rules.read(dict(request.query_params.items()))
        return Response(represented(_found(wanted, self.access.rows("fleet__name"))))

    @carries_out(
        "drain",
        "Drain all replicas on a host or an accelerator, or end that",
        request_schemas.DRAIN,
        DrainChangedSerializer,
        CONFIRM,
    )
    def post(self, request: Request) -> Response:
        wanted = drain_rules.read(body_of(request))
        _found(wanted, self.access.rows("fleet__name"))  # what is not to be seen is not there
        rows = _found(wanted)
        self._refuse_of_others(rows)
        actor = request.user.get_username()
        if wanted.ends:
            done = drains.undo(rows, actor)
        else:
            done = drains.drain(rows, actor, move=wanted.move, confirm=confirmation(request))
        changes = [change for change in done.changes if change.lines]
        ends = time.monotonic() + (WAIT_S if all(change.published for change in changes) else 0.0)
        fleets = [_acknowledged(change, ends) for change in changes]
        return Response(
            {
                **represented(done.replicas),
                "changed": [f"{change.fleet.name}: {line}" for change in changes for line in change.lines],
                **presenters.publication(all(change.published for change in changes)),
                "fleets": fleets,
            }
        )

    def _refuse_of_others(self, rows: list[Replica]) -> None:
        """Raises Forbidden where one is of a fleet that the account may not operate."""
        may = self.access.fleet_names(Role.OPERATE)
        others = [row for row in rows if may is not None and row.fleet.name not in may]
        if others:
            number = "a replica" if len(others) == 1 else f"{len(others)} replicas"
            raise Forbidden(f"There is {number} of fleets in which your role is not operate. {ASK}")


def _found(wanted: WantedDrain, visible: Q = drains.EVERY) -> list[Replica]:
    if wanted.host:
        return drains.on_host(wanted.host, visible)
    return drains.on_accelerator(wanted.accelerator, visible)


def _acknowledged(change: Change, ends: float) -> dict[str, Any]:
    left_s = max(ends - time.monotonic(), 0.0)
    return {
        "name": change.fleet.name,
        "table_version": str(change.version),
        "workers": publisher.acknowledged(change.fleet.name, change.version, left_s)._asdict(),
    }
