"""``/client-keys`` and ``/client-keys/{id}``."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.openapi_operations import SEARCH, changes, creates, lists, reads
from controlplane.api.serializers.client_keys import (
    ClientKeyChangedSerializer,
    ClientKeyMadeSerializer,
    ClientKeySerializer,
    ClientKeySettingsChangedSerializer,
    ClientKeySettingsSerializer,
)
from controlplane.models import ClientKey
from controlplane.publishing.acknowledgements import manifest_acknowledged
from controlplane.services import client_keys, keys_required
from controlplane.services.client_keys import KeyChange

WAIT_S = 0.25
"""A write waits this long for proxy workers to say that they have it."""
REVOKED = OpenApiParameter(
    "revoked", str, enum=["no", "yes"], description="`yes`: revoked keys instead of valid ones."
)


def represented(row: ClientKey) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "prefix": row.prefix,
        "fleets": None if row.all_fleets else client_keys.fleet_names(row),
        **client_keys.limits(row),
        "created_by": row.created_by,
        "created_at": row.created_at,
        "revoked_by": row.revoked_by or None,
        "revoked_at": row.revoked_at,
    }


def _answer(change: KeyChange, status: int = 200) -> Response:
    wait_s = WAIT_S if change.published and change.lines else 0.0
    data: dict[str, Any] = {
        **represented(change.row),
        "changed": list(change.lines),
        **presenters.publication(change.published),
        "workers": manifest_acknowledged(change.version, wait_s)._asdict(),
    }
    if change.effect:
        data["effect"] = change.effect
    if change.key:
        data["key"] = change.key
    answer = versioned(data, change.row.edit_version, status)
    answer["Cache-Control"] = "no-store"
    return answer


class ClientKeyList(ApiView):
    query_parameters = ("revoked", "search", "page", "page_size")

    @lists(
        "list_client_keys",
        "Client keys of the proxy",
        ClientKeySerializer,
        REVOKED,
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        revoked = request.query_params.get("revoked", "no")
        if revoked not in ("no", "yes"):
            raise ParseError(f'revoked must be yes or no, not "{revoked[:40]}".')
        rows = ClientKey.objects.filter(revoked_at__isnull=revoked == "no").prefetch_related("fleets")
        rows = rows.filter(filters.search(request, "name"))
        return self.paged(request, rows, lambda page: [represented(row) for row in page])

    @creates(
        "create_client_key",
        "Create a client key; only this response shows it",
        request_schemas.NEW_CLIENT_KEY,
        ClientKeyMadeSerializer,
    )
    def post(self, request: Request) -> Response:
        return _answer(client_keys.create(body_of(request), request.user.get_username()), 201)


class ClientKeyDetail(ApiView):
    @reads("get_client_key", "One client key", ClientKeySerializer)
    def get(self, request: Request, key: int) -> Response:
        row = client_keys.key_of(key)
        return versioned(represented(row), row.edit_version)

    @changes(
        "change_client_key",
        "Change a client key: its name, fleets and limits",
        request_schemas.CLIENT_KEY_CHANGES,
        ClientKeyChangedSerializer,
    )
    def patch(self, request: Request, key: int) -> Response:
        who, expected = request.user.get_username(), expected_version(request)
        return _answer(client_keys.update(key, body_of(request), who, if_version=expected))

    @changes("revoke_client_key", "Revoke a client key permanently", None, ClientKeyChangedSerializer)
    def delete(self, request: Request, key: int) -> Response:
        who, expected = request.user.get_username(), expected_version(request)
        return _answer(client_keys.revoke(key, who, if_version=expected))


class ClientKeySettings(ApiView):
    limited = ("GET",)

    @reads(
        "get_client_key_settings",
        "Whether every request needs a client key",
        ClientKeySettingsSerializer,
    )
    def get(self, request: Request) -> Response:
        return Response(_settings(*keys_required.read()))

    @changes(
        "change_client_key_settings",
        "Require client keys, or no longer",
        request_schemas.CLIENT_KEY_SETTINGS,
        ClientKeySettingsChangedSerializer,
    )
    def patch(self, request: Request) -> Response:
        change = keys_required.change(body_of(request), request.user.get_username())
        wait_s = WAIT_S if change.published and change.lines else 0.0
        return Response(
            {
                **_settings(change.required, change.keys),
                "changed": list(change.lines),
                **presenters.publication(change.published),
                "workers": manifest_acknowledged(change.version, wait_s)._asdict(),
            }
        )


def _settings(required: bool, keys: int) -> dict[str, Any]:
    return {"required": required, "keys": keys, "effect": keys_required.effect(required, keys)}
