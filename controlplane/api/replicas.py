"""``/fleets/{fleet}/replicas`` and ``/fleets/{fleet}/replicas/{replica}``."""

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import live, represent, rule_schemas, serializers
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.documented import SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.fleets import WAIT_S
from controlplane.models import Replica
from controlplane.services import replicas
from controlplane.services.lookup import fleet_named, replica_named
from controlplane.services.replicas import ReplicaChange


def _answer(result: ReplicaChange, status: int = 200) -> Response:
    outcome = represent.outcome(result.change, WAIT_S)
    fleet = result.change.fleet
    # Read after the wait, so that what is left in flight is as new as can be.
    row = replica_named(fleet, result.replica.name)
    seen = live.fresh_replicas(fleet.name).get(row.name)
    return versioned({**represent.replica(row, seen), **outcome}, row.edit_version, status)


class ReplicaList(ApiView):
    query_parameters = ("search", "page", "page_size")

    @lists("list_replicas", "Replicas of a fleet", serializers.Replica, SEARCH)
    def get(self, request: Request, fleet: str) -> Response:
        row = fleet_named(fleet)
        rows = Replica.objects.filter(fleet=row).select_related("hardware", "health").order_by("name")
        if wanted := request.query_params.get("search"):
            rows = rows.filter(Q(name__icontains=wanted) | Q(url__icontains=wanted))
        seen = live.fresh_replicas(fleet)
        return self.paged(
            request, rows, lambda page: [represent.replica(one, seen.get(one.name)) for one in page]
        )

    @creates("register_replica", "Register a replica", rule_schemas.NEW_REPLICA, serializers.ReplicaChanged)
    def post(self, request: Request, fleet: str) -> Response:
        return _answer(replicas.register(fleet, body_of(request), request.user.get_username()), 201)


class ReplicaDetail(ApiView):
    @reads("get_replica", "One replica", serializers.Replica)
    def get(self, request: Request, fleet: str, replica: str) -> Response:
        row = replica_named(fleet_named(fleet), replica)
        seen = live.fresh_replicas(fleet).get(replica)
        return versioned(represent.replica(row, seen), row.edit_version)

    @changes(
        "change_replica",
        "Change weight, admin state or address (null: not set)",
        rule_schemas.REPLICA_CHANGES,
        serializers.ReplicaChanged,
    )
    def patch(self, request: Request, fleet: str, replica: str) -> Response:
        result = replicas.update(
            fleet,
            replica,
            body_of(request),
            request.user.get_username(),
            if_version=expected_version(request),
        )
        return _answer(result)

    @deletes("remove_replica", "Remove a replica; its requests in flight finish")
    def delete(self, request: Request, fleet: str, replica: str) -> Response:
        replicas.delete(fleet, replica, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
