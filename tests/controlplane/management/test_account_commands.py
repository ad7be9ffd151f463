"""``manage.py accounts`` and ``setroles``: who may do what, seen and changed at the terminal."""

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from controlplane.models import AuditEntry, Fleet
from tests.controlplane.conftest import Api
from tests.controlplane.management.test_commands import run


@pytest.fixture
def anna() -> User:
    return User.objects.create_user("anna", is_staff=True)


def test_accounts_lists_roles_logins_and_who_is_disabled(anna: User) -> None:
    User.objects.create_user("otto")
    User.objects.create_user("zoe", is_active=False)
    run("setroles", "otto", "operate:team=search", "read")
    assert run("accounts").splitlines() == [
        "anna: administer all fleets; never logged in",
        "otto: operate team=search; read all fleets; never logged in",
        "zoe: disabled; never logged in",
    ]


def test_setroles_holds_from_the_next_request_on(anna: User) -> None:
    Fleet.objects.create(name="ours", labels={"team": "search"})
    Fleet.objects.create(name="theirs")
    token = run("createtoken", "anna", "script").strip().splitlines()[-1].split()[-1]
    api = Api(token)
    assert len(api.get("/fleets").json()["results"]) == 2
    said = run("setroles", "anna", "read:team=search")
    assert said == "anna: administer all fleets → read team=search\n"
    assert [fleet["name"] for fleet in api.get("/fleets").json()["results"]] == ["ours"]
    assert api.patch("/fleets/ours", {"aliases": ["x"]}).status_code == 403
    assert AuditEntry.objects.filter(target__contains="anna", verb__contains="role").exists()


@pytest.mark.parametrize("wrong", ["write", "operate:", "operate:team", "read:team=a,team=b"])
def test_setroles_refuses_what_is_no_role_and_changes_nothing(anna: User, wrong: str) -> None:
    with pytest.raises(CommandError):
        run("setroles", "anna", wrong)
    assert "anna: administer all fleets" in run("accounts")


def test_setroles_of_nobody_says_who_there_is_not() -> None:
    with pytest.raises(CommandError, match="nemo"):
        run("setroles", "nemo", "read")
