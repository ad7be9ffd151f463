"""``/trial-probes``: what an address answers, before or without registering it."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import rule_schemas, serializers
from controlplane.api.base import ApiView, body_of
from controlplane.api.documented import asks
from controlplane.probes.trial import Trial
from controlplane.services import trials


def represented(found: Trial) -> dict[str, Any]:
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


class TrialProbes(ApiView):
    @asks(
        "try_address",
        "Probe an address once, and say in words what it answers (at most 5 s)",
        rule_schemas.TRIAL_REQUEST,
        serializers.Trial,
    )
    def post(self, request: Request) -> Response:
        return Response(represented(trials.attempt(body_of(request))))
