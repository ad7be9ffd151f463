"""``/fleets/{fleet}/policy`` and its revisions."""

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access.roles import Role
from controlplane.api import filters, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, confirmation, expected_version, versioned
from controlplane.api.fleets import WAIT_S
from controlplane.api.openapi_operations import CONFIRM, SEARCH, changes, lists, reads
from controlplane.api.serializers.policies import (
    PolicyChangedSerializer,
    PolicySerializer,
    RevisionDetailSerializer,
    RevisionSerializer,
)
from controlplane.models import PolicyRevision
from controlplane.services import policies
from controlplane.services.changes import Change
from controlplane.services.errors import FieldError, Invalid
from controlplane.services.lookup import fleet_named


def _answer(change: Change) -> Response:
    data = {**presenters.policy(change.fleet), **presenters.outcome(change, WAIT_S)}
    return versioned(data, change.fleet.edit_version)


class PolicyDetail(ApiView):
    roles = {"PATCH": Role.OPERATE}

    @reads("get_policy", "The policy in force", PolicySerializer)
    def get(self, request: Request, fleet: str) -> Response:
        row = fleet_named(fleet)
        return versioned(presenters.policy(row), row.edit_version)

    @changes(
        "change_policy",
        "Change the policy of live traffic (JSON merge patch)",
        request_schemas.POLICY_CHANGES,
        PolicyChangedSerializer,
    )
    def patch(self, request: Request, fleet: str) -> Response:
        change = policies.change(
            fleet, body_of(request), request.user.get_username(), if_version=expected_version(request)
        )
        return _answer(change)


class RevisionList(ApiView):
    query_parameters = ("search", "page", "page_size")

    @lists(
        "list_revisions",
        "Revisions of policy and weights, newest first",
        RevisionSerializer,
        SEARCH,
    )
    def get(self, request: Request, fleet: str) -> Response:
        rows = PolicyRevision.objects.filter(fleet=fleet_named(fleet)).order_by("-number")
        rows = rows.filter(filters.search(request, "summary", "actor"))
        return self.paged(request, rows, presenters.revisions)


class RevisionDetail(ApiView):
    @reads(
        "get_revision",
        "One revision, and what restoring it would change",
        RevisionDetailSerializer,
    )
    def get(self, request: Request, fleet: str, number: int) -> Response:
        row = fleet_named(fleet)
        revision = policies.revision_numbered(row, number)
        changed: list[str] | None = None
        refused = ""
        try:
            changed = policies.would_change(row, revision)
        except Invalid as error:
            refused = error.detail
        data = {**presenters.revisions([revision])[0], "would_change": changed, "refused": refused}
        return versioned(data, row.edit_version)


class RevisionRestore(ApiView):
    roles = {"POST": Role.OPERATE}
    write_parameters = {"POST": ("confirm",)}

    @changes(
        "restore_revision",
        "Restore a revision as a new one",
        None,
        PolicyChangedSerializer,
        CONFIRM,
    )
    def post(self, request: Request, fleet: str, number: int) -> Response:
        if request.data:
            raise Invalid([FieldError("", "This request takes no body.")])
        change = policies.restore(
            fleet,
            number,
            request.user.get_username(),
            if_version=expected_version(request),
            confirm=confirmation(request),
        )
        return _answer(change)
