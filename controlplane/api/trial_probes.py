"""Trial probes, ``/trial-probes``: what an address answers, before or without registering it."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import request_schemas
from controlplane.api.base import ApiView, body_of
from controlplane.api.openapi_operations import asks
from controlplane.api.serializers.trials import TrialSerializer
from controlplane.probes import trial_service
from controlplane.probes.trial_probe import TrialResult


def represented(found: TrialResult) -> dict[str, Any]:
    fits = found.fits
    return {
        "outcome": found.outcome,
        "words": found.words,
        "url": found.url,
        "asked": found.asked,
        "preset": found.preset,
        "status": found.status,
        "latency_ms": found.latency_ms,
        "fits": {"probe": fits.probe, "words": fits.words} if fits else None,
    }


TRIAL = OpenApiParameter("trial", str, enum=["yes", "no"], description="`no`: do not probe the replicas.")


def trial_wanted(request: Request) -> bool:
    """Whether a write that registers replicas is to ask them first."""
    wanted = request.query_params.get("trial", "yes")
    if wanted not in ("yes", "no"):
        raise exceptions.ParseError(f"trial must be yes or no, not {wanted[:40]!r}.")
    return wanted == "yes"


class TrialProbes(ApiView):
    limited = ("POST",)

    @asks(
        "try_address",
        "Probe an address once and describe the result (takes at most 5 s)",
        request_schemas.TRIAL_REQUEST,
        TrialSerializer,
    )
    def post(self, request: Request) -> Response:
        body = body_of(request)
        fleet = body.get("fleet")
        if isinstance(fleet, str):
            self.check_role(Role.ADMINISTER, fleet)
        self.check_settings(body, fleet=fleet if isinstance(fleet, str) else "")
        return Response(represented(trial_service.attempt(body)))
