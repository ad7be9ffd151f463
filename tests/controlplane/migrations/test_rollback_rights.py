"""A rollback to a version without roles and limits of tokens gives nobody more rights."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.access.grants import Grant
from controlplane.access.roles import Role
from controlplane.models import ApiToken, AuditEntry
from controlplane.services import accounts, tokens
from controlplane.services.token_rules import TokenSettings
from tests.controlplane.migrations.conftest import Migrate

pytestmark = pytest.mark.database

BEFORE_ROLES, BEFORE_LIMITS = "0016_token_expiry", "0015_keys_required"


def test_tokens_with_limits_are_deleted(migrate: Migrate) -> None:
    anna = User.objects.create_user("anna", is_staff=True)
    later = timezone.now() + timedelta(days=30)
    for settings in (
        TokenSettings("all"),
        TokenSettings("service", service=True),
        TokenSettings("reads", role=Role.READ),
        TokenSettings("one team", selector={"team": "search"}),
        TokenSettings("expires", expires_at=later),
        TokenSettings("expired"),
    ):
        tokens.create(anna, settings, "tests")
    ApiToken.objects.filter(name="expired").update(expires_at=timezone.now() - timedelta(days=1))
    migrate(BEFORE_LIMITS)
    assert set(ApiToken.objects.values_list("name", flat=True)) == {"all", "service"}
    told = AuditEntry.objects.filter(verb="tokens.revoke", actor="migrate").values_list("target", flat=True)
    assert set(told) == {"anna/reads", "anna/one team", "anna/expires", "anna/expired"}


def test_accounts_of_some_fleets_are_disabled(migrate: Migrate) -> None:
    for name, roles in {
        "of-a-team": ["administer:team=search", "read:team=ads"],
        "reads-all": ["read", "administer:team=search"],
        "operates": ["operate"],
        "administers": ["administer"],
    }.items():
        accounts.create(name, "tests", [Grant.parse(role) for role in roles])
    # As a shell may have left them: the roles decide, whatever this says.
    User.objects.filter(username__in=["of-a-team", "reads-all"]).update(is_staff=True)
    User.objects.create_user("without-roles", is_staff=True)
    User.objects.create_superuser("root")
    migrate(BEFORE_ROLES)
    rows = {
        name: (active, staff)
        for name, active, staff in User.objects.values_list("username", "is_active", "is_staff")
    }
    assert rows == {
        "of-a-team": (False, False),
        "reads-all": (True, False),
        "operates": (True, False),
        "administers": (True, True),
        "without-roles": (True, True),
        "root": (True, True),
    }
    told = AuditEntry.objects.get(verb="accounts.disable")
    assert told.target == "of-a-team"
    assert told.before["roles"] == [["administer", {"team": "search"}], ["read", {"team": "ads"}]]
