"""``/fleets/{fleet}/replicas/{replica}/probes``: its last probe results, and a probe at once."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import asks, reads
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.probes import ProbedNowSerializer, ProbeResultsSerializer
from controlplane.models import Replica
from controlplane.probes import recent_results
from controlplane.services.lookup import fleet_named, replica_named

WAIT_S = 5.0
"""For the result of a probe at once; one that takes longer comes with the next reading."""


def _represented(row: Replica) -> dict[str, Any]:
    """Raises redis.RedisError."""
    results = recent_results.read(str(row.uid))
    return {
        "results": [
            {
                "age_s": round(one.age_s, 3),
                "passed": one.passed,
                "answer": one.answer,
                "latency_ms": one.latency_ms,
            }
            for one in results
        ]
    }


class ReplicaProbes(ApiView):
    roles = {"POST": Role.OPERATE}

    @reads("get_probe_results", "The last 50 probe results of a replica", ProbeResultsSerializer, live=True)
    def get(self, request: Request, fleet: str, replica: str) -> Response:
        row = replica_named(fleet_named(fleet), replica)
        with redis_needed():
            return Response(_represented(row))

    @asks(
        "probe_now", "Probe a replica at once; the result counts as any", None, ProbedNowSerializer, live=True
    )
    def post(self, request: Request, fleet: str, replica: str) -> Response:
        row = replica_named(fleet_named(fleet), replica)
        with redis_needed():
            probed = recent_results.probe_now(str(row.uid), WAIT_S)
            return Response({"probed": probed, **_represented(row)})
