"""``/fleets/{fleet}/source-trials``: what a source would list, before it is made or changed."""

from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import request_schemas
from controlplane.api.base import ApiView, body_of
from controlplane.api.openapi_operations import asks
from controlplane.api.redis_unavailable import redis_needed
from controlplane.api.serializers.source_trials import SourceTrialSerializer
from controlplane.datastores import redis
from controlplane.discovery import trial_service
from controlplane.discovery.trial_service import MOST_SHOWN, TrialOutcome
from controlplane.discovery.trials import NobodyLooks
from controlplane.services.lookup import fleet_named


class NoConductor(exceptions.APIException):
    status_code = 503
    default_detail = "No conductor leads, or it did not answer in time: sources are looked at by none."


class SourceTrials(ApiView):
    @asks(
        "try_source",
        "List a source once, where it would be followed, and say what would come in (takes at most 8 s)",
        request_schemas.NEW_SOURCE,
        SourceTrialSerializer,
        live=True,
    )
    def post(self, request: Request, fleet: str) -> Response:
        self.check_role(Role.ADMINISTER)
        try:
            with redis_needed():
                outcome = trial_service.attempt(fleet_named(fleet), body_of(request), redis.client())
        except NobodyLooks as error:
            raise NoConductor from error
        return Response(represented(outcome))


def represented(outcome: TrialOutcome) -> dict[str, Any]:
    listing = outcome.listing
    return {
        "answered": not listing.error,
        "words": outcome.words,
        "took_s": listing.took_s,
        "entries": None if listing.error else len(listing.entries),
        "new": [
            {"name": one.name, "url": one.url, "hardware": one.hardware or None, "site": one.site}
            for one in outcome.new[:MOST_SHOWN]
        ],
        "changed": dict(list(outcome.changed.items())[:MOST_SHOWN]),
        "unchanged": outcome.unchanged,
        "missing": outcome.missing[:MOST_SHOWN],
        "left_alone": outcome.left_alone[:MOST_SHOWN],
        "refused": dict(list(outcome.refused.items())[:MOST_SHOWN]),
    }
