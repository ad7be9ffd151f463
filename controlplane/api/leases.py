"""``/fleets/{fleet}/sources/{source}/leases/{replica}``: a replica registers itself, renews, and leaves.

Where replicas of the source may be was said by whoever made it. So a role that operates the fleet is enough,
but for hosts and ports of fleets that it does not operate.
"""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import live, presenters, request_schemas
from controlplane.api.base import ApiView, body_of
from controlplane.api.openapi_operations import carries_out, reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.leases import LeaseSerializer
from controlplane.datastores import redis
from controlplane.discovery.lease_store import LeaseHeld, LeaseStore, StoredLease
from controlplane.models import DiscoverySource, Replica
from controlplane.services import lease_rules, sources
from controlplane.services.errors import Conflict, NotFound
from controlplane.services.lookup import fleet_named
from routing.contract.addresses import normalise_url
from routing.contract.fleet_file.sources import source_rules

HELD_AT = OpenApiParameter("url", str, description="Release it only if this is the replica's URL.")


class ReplicaLease(ApiView):
    roles = {"PUT": Role.OPERATE, "DELETE": Role.OPERATE}
    write_parameters = {"DELETE": ("url",)}

    @reads("get_lease", "The lease of a replica that registered itself", LeaseSerializer, live=True)
    def get(self, request: Request, fleet: str, source: str, replica: str) -> Response:
        row = _source(fleet, source)
        return Response(_represented(row, replica))

    @carries_out(
        "grant_lease",
        "Register a replica at a source of leases, or renew its lease",
        request_schemas.LEASE,
        LeaseSerializer,
    )
    def put(self, request: Request, fleet: str, source: str, replica: str) -> Response:
        row = _source(fleet, source)
        settings = lease_rules.checked(row, replica, body_of(request))
        if not Replica.objects.filter(fleet=row.fleet, name=replica, url=settings["url"]).exists():
            self.check_own_host({"url": settings["url"]}, fleet, replica)
        try:
            with redis_needed():
                _store(row).grant(replica, settings, _ttl_s(row))
        except LeaseHeld as held:
            if not held.told:
                lease_rules.tell_of_claim(row, replica, settings["url"], held.url)
            lease_rules.refuse_claim(replica, held.url, held.left_s)
        return Response(_represented(row, replica))

    @carries_out(
        "release_lease",
        "Have a replica leave: it is drained, then removed; its lease is gone when that is done",
        None,
        LeaseSerializer,
        HELD_AT,
    )
    def delete(self, request: Request, fleet: str, source: str, replica: str) -> Response:
        row = _source(fleet, source)
        before = _represented(row, replica)
        url = _url_of(request)
        if url and before["url"] != url:
            lease_rules.refuse_release(replica, before["url"])
        with redis_needed():
            if not _store(row).release(replica, url):
                lease_rules.refuse_release(replica, _represented(row, replica)["url"])
        return Response({**before, "expires_in_s": 0.0, "leaving": True})


def _source(fleet: str, name: str) -> DiscoverySource:
    """Raises NotFound, Conflict."""
    row = sources.source_named(fleet_named(fleet), name)
    if row.kind != "lease":
        raise Conflict(
            f"Source {name} of fleet {fleet} is of kind {row.kind}: replicas register themselves at a source "
            "of kind lease."
        )
    return row


def _url_of(request: Request) -> str:
    """Normalised; empty: any. Raises ParseError."""
    given = request.query_params.get("url", "")
    try:
        return normalise_url(given) if given else ""
    except ValueError as error:
        raise exceptions.ParseError(f"url {error}") from None


def _store(row: DiscoverySource) -> LeaseStore:
    return LeaseStore(redis.client(), str(row.uid))


def _ttl_s(row: DiscoverySource) -> float:
    found: float = source_rules.effective(row.settings)["lease"]["ttl_s"]
    return found


def _represented(row: DiscoverySource, name: str) -> dict[str, Any]:
    """Raises NotFound once neither lease nor replica are there, and what answers 503 while Redis is away."""
    with redis_needed():
        leases, now = _store(row).read(name)
    lease = leases.get(name)
    replica = (
        Replica.objects.select_related("hardware", "health", "owner__source")
        .filter(fleet=row.fleet, name=name, owner__source=row)
        .first()
    )
    if replica is None and (lease is None or lease.leaving or lease.expires_at <= now):
        raise NotFound(f"Replica {name} has no lease of source {row.name}: PUT registers it.")
    return {
        "name": name,
        "url": _held_at(lease, replica),
        "ttl_s": _ttl_s(row),
        "expires_in_s": round(max(lease.expires_at - now, 0.0), 1) if lease and not lease.leaving else 0.0,
        "leaving": bool(lease and lease.leaving) or _is_drained(replica),
        "replica": None if replica is None else _replica(row, replica),
    }


def _held_at(lease: StoredLease | None, replica: Replica | None) -> str:
    told = lease.settings.get("url") if lease is not None else None
    return str(told) if told else replica.url if replica is not None else ""


def _is_drained(replica: Replica | None) -> bool:
    return replica is not None and replica.owner.drained_at is not None


def _replica(row: DiscoverySource, replica: Replica) -> dict[str, Any]:
    replica.fleet = row.fleet
    seen = live.fresh_replicas(row.fleet.name)
    whole = presenters.replica(replica, seen)
    return {name: whole[name] for name in ("eligible", "why", "in_flight", "safe_to_stop")}
