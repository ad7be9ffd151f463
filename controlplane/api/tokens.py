"""``/tokens`` and ``/tokens/{id}``."""

from typing import Any

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import filters, request_schemas
from controlplane.api.base import ApiView, body_of
from controlplane.api.openapi_operations import SEARCH, creates, lists, removes
from controlplane.api.serializers.tokens import TokenMadeSerializer, TokenSerializer
from controlplane.models import ApiToken
from controlplane.services import tokens


def current_user(request: Request) -> User:
    """Permissions have seen to it that there is one."""
    assert isinstance(request.user, User)
    return request.user


def token_of(request: Request) -> ApiToken | None:
    """That which the request came with; None: it came with a session."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def represented(row: ApiToken) -> dict[str, Any]:
    return {
        "id": row.pk,
        "name": row.name,
        "prefix": row.prefix,
        "user": row.user.get_username(),
        "role": row.role,
        "labels": row.selector,
        "service": row.service,
        "expires_at": row.expires_at,
        "created_at": row.created_at,
        "last_used_at": row.last_used_at,
    }


class TokenList(ApiView):
    roles = {"POST": Role.READ}
    limited = ("GET", "POST")
    query_parameters = ("search", "page", "page_size")

    @lists(
        "list_tokens",
        "API tokens: all of them for who administers all fleets, else your own",
        TokenSerializer,
        SEARCH,
    )
    def get(self, request: Request) -> Response:
        rows = tokens.seen_by(current_user(request), self.access).filter(filters.search(request, "name"))
        return self.paged(request, rows, lambda page: [represented(row) for row in page])

    @creates(
        "create_token",
        "Create an API token for yourself; only this response shows it",
        request_schemas.NEW_TOKEN,
        TokenMadeSerializer,
    )
    def post(self, request: Request) -> Response:
        body, maker = body_of(request), token_of(request)
        row, token = tokens.create_own(current_user(request), self.access, body, maker)
        return Response(
            {**represented(row), "token": token}, status=201, headers={"Cache-Control": "no-store"}
        )


class TokenDetail(ApiView):
    roles = {"DELETE": Role.READ}
    limited = ("DELETE",)

    @removes("revoke_token", "Revoke an API token: it is deleted")
    def delete(self, request: Request, token: int) -> Response:
        tokens.revoke(token, current_user(request), self.access, token_of(request))
        return Response(status=204)
