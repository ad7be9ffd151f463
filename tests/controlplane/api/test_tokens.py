"""``/tokens``: one's own are made, everybody's are seen and revoked by staff."""

from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from controlplane.access.roles import Role
from controlplane.models import ApiToken, AuditEntry, ForcedPasswordChange
from controlplane.services import accounts, tokens
from controlplane.services.token_rules import TokenSettings
from controlplane.services.unit_of_work import UnitOfWork
from tests.controlplane.conftest import Api


def test_a_token_is_shown_once_and_works_until_it_is_revoked(api: Api) -> None:
    answer = api.post("/tokens", {"name": "laptop"})
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    made = answer.json()
    assert made["user"] == "anna"
    assert made["token"].startswith(made["prefix"])
    assert made["last_used_at"] is None
    other = Api(made["token"])
    assert other.get("/fleets").status_code == 200
    listed = api.get("/tokens?search=lap")
    assert made["token"] not in listed.content.decode()
    assert listed.json()["results"][0]["last_used_at"] is not None
    assert api.delete(f"/tokens/{made['id']}").status_code == 204
    assert other.get("/fleets").status_code == 401
    assert api.delete(f"/tokens/{made['id']}").status_code == 404
    entries = AuditEntry.objects.filter(target="anna/laptop").order_by("pk")
    assert [entry.verb for entry in entries] == ["tokens.create", "tokens.revoke"]
    assert made["token"] not in repr(list(AuditEntry.objects.values()))


def test_a_token_has_its_users_rights_and_no_more(api: Api, operator: User) -> None:
    other = Api(api.post("/tokens", {"name": "script"}).json()["token"])
    again = other.post("/tokens", {"name": "from a token"})
    assert again.json()["user"] == "anna"
    asked = other.post("/tokens", {"name": "x", "user": "root"})
    assert asked.status_code == 400
    assert asked.json()["errors"][0]["pointer"] == "/user"
    User.objects.filter(pk=operator.pk).update(is_staff=False)
    assert Api(again.json()["token"]).post("/client-keys", {"name": "y"}).status_code == 403
    assert Api(again.json()["token"]).get("/fleets").status_code == 200


def test_staff_see_all_and_others_their_own(api: Api, reader: Api) -> None:
    assert {row["user"] for row in api.get("/tokens").json()["results"]} == {"anna", "rolf"}
    assert {row["user"] for row in reader.get("/tokens").json()["results"]} == {"rolf"}
    mine = ApiToken.objects.get(user__username="rolf").pk
    assert api.delete(f"/tokens/{mine}").status_code == 204
    assert reader.get("/tokens").status_code == 401


def test_whoever_may_only_read_makes_and_revokes_their_own(api: Api, reader: Api) -> None:
    above = reader.post("/tokens", {"name": "x", "role": "operate"})
    assert (above.status_code, above.json()["errors"][0]["pointer"]) == (403, "/role")
    assert reader.post("/tokens", {"name": "x", "service": True}).status_code == 403
    made = reader.post("/tokens", {"name": "laptop"})
    laptop = token_of(made)
    assert laptop.get("/fleets").status_code == 200
    assert laptop.post("/client-keys", {"name": "x"}).status_code == 403
    # It has leaked: its owner ends it, and nobody else's.
    annas = ApiToken.objects.get(user__username="anna").pk
    assert reader.delete(f"/tokens/{annas}").status_code == 404
    assert reader.delete(f"/tokens/{made.json()['id']}").status_code == 204
    assert laptop.get("/fleets").status_code == 401


def test_a_token_revokes_those_that_may_no_more_than_it(api: Api) -> None:
    def made(name: str, **limits: Any) -> tuple[Api, str]:
        answer = api.post("/tokens", {"name": name, **limits})
        return token_of(answer), f"/tokens/{answer.json()['id']}"

    (read, its_own), (_, operating) = made("r", role="read"), made("o", role="operate")
    (team, _), (_, narrower) = (
        made("t", labels={"team": "ads"}),
        made("n", labels={"team": "ads", "env": "prod"}),
    )
    for one, other in ((read, operating), (team, operating), (team, its_own)):
        refused = one.delete(other)
        assert (refused.status_code, "may more than the one" in refused.json()["detail"]) == (403, True)
    assert team.delete(narrower).status_code == 204
    assert read.delete(its_own).status_code == 204


@pytest.mark.parametrize("name", ["", " ", "x" * 101, None, 3])
def test_refused_and_explained(api: Api, name: Any) -> None:
    answer = api.post("/tokens", {"name": name})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/name"
    assert ApiToken.objects.count() == 1


def test_the_use_is_noted_once_a_minute(api: Api) -> None:
    def used() -> Any:
        return ApiToken.objects.get().last_used_at

    api.get("/strategies")
    first = used()
    api.get("/strategies")
    assert used() == first
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    api.get("/strategies")
    assert used() > first


def token_of(answer: Any) -> Api:
    assert answer.status_code == 201, answer.content
    return Api(answer.json()["token"])


def test_a_token_expires(api: Api) -> None:
    made = api.post("/tokens", {"name": "week", "expires_in_days": 7})
    expires_at = datetime.fromisoformat(made.json()["expires_at"])
    assert timedelta(days=6.9) < expires_at - timezone.now() <= timedelta(days=7)
    week = token_of(made)
    assert week.get("/fleets").status_code == 200
    ApiToken.objects.filter(name="week").update(expires_at=timezone.now())
    refused = week.get("/fleets")
    assert (refused.status_code, "has expired" in refused.json()["detail"]) == (401, True)
    exact = api.post("/tokens", {"name": "day", "expires_at": "2040-02-29T12:00:00+02:00"}).json()
    assert exact["expires_at"] == "2040-02-29T10:00:00Z"
    assert api.post("/tokens", {"name": "never"}).json()["expires_at"] is None
    assert AuditEntry.objects.get(target="anna/day").after["expires_at"] == "2040-02-29T10:00:00+00:00"


@pytest.mark.parametrize(
    ("given", "pointer", "words"),
    [
        ({"expires_in_days": 0}, "/expires_in_days", "from 1 to 36500 days"),
        ({"expires_in_days": 36_501}, "/expires_in_days", "from 1 to 36500 days"),
        ({"expires_in_days": 3_000_000}, "/expires_in_days", "from 1 to 36500 days"),
        ({"expires_in_days": 1.5}, "/expires_in_days", "whole number"),
        ({"expires_in_days": True}, "/expires_in_days", "whole number"),
        ({"expires_in_days": "7"}, "/expires_in_days", "remove the quotes"),
        ({"expires_at": "2001-01-01"}, "/expires_at", "over already"),
        ({"expires_at": "9999-12-31T23:59:59-12:00"}, "/expires_at", "within 36500 days, or never"),
        ({"expires_at": "9999-12-31"}, "/expires_at", "within 36500 days, or never"),
        ({"expires_at": "10000-01-01"}, "/expires_at", "write it as 2027-06-30"),
        ({"expires_at": "tomorrow"}, "/expires_at", "write it as 2027-06-30"),
        ({"expires_at": 3}, "/expires_at", "must be text"),
        ({"expires_at": "2040-01-01", "expires_in_days": 3}, "/expires_at", "either"),
        ({"role": "root"}, "/role", "must be one of"),
        ({"labels": {"team": 3}}, "/labels/team", "must be text"),
        ({"service": 1}, "/service", "true or false"),
    ],
)
def test_what_cannot_be_is_refused(api: Api, given: Any, pointer: str, words: str) -> None:
    answer = api.post("/tokens", {"name": "x", **given})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]
    assert ApiToken.objects.count() == 1


def test_a_read_token_of_an_administrator_reads(api: Api, reader: Api, llm: str) -> None:
    read = token_of(api.post("/tokens", {"name": "r", "role": "read"}))
    assert read.get("/fleets").status_code == 200
    assert read.patch("/fleets/llm", {"served_model": "x"}).status_code == 403
    assert read.patch("/fleets/llm/policy", {"slow_start_s": 1}).status_code == 403
    assert read.post("/client-keys", {"name": "x"}).status_code == 403
    assert read.post("/tokens", {"name": "x"}).status_code == 403
    # Not everybody's tokens either.
    assert {row["user"] for row in read.get("/tokens").json()["results"]} == {"anna"}
    operate = token_of(api.post("/tokens", {"name": "o", "role": "operate"}))
    assert operate.patch("/fleets/llm/policy", {"slow_start_s": 1}).status_code == 200
    assert operate.patch("/client-keys/settings", {"required": True}).status_code == 403
    assert operate.get("/tokens").json()["count"] == 3


def test_a_role_above_its_users_gives_nothing(operator: User) -> None:
    rita = User.objects.create_user("rita")
    token = tokens.create(rita, TokenSettings("x", Role.ADMINISTER), "tests")[1]
    assert Api(token).post("/client-keys", {"name": "x"}).status_code == 403
    # And one that was within it is less as soon as its user may less.
    admin = Api(tokens.create(operator, TokenSettings("y", Role.OPERATE), "tests")[1])
    operator.is_staff = False
    operator.save()
    assert admin.patch("/client-keys/settings", {"required": True}).status_code == 403


def test_a_token_for_labels_sees_their_fleets_only(api: Api, make_fleet: Any) -> None:
    make_fleet("find", labels={"team": "search"})
    make_fleet("bid", labels={"team": "ads"})
    team = token_of(api.post("/tokens", {"name": "t", "labels": {"team": "ads"}}))
    assert [row["name"] for row in team.get("/fleets").json()["results"]] == ["bid"]
    assert team.get("/fleets/find").status_code == 404
    assert team.patch("/fleets/bid/policy", {"slow_start_s": 1}).status_code == 200
    wider = team.post("/tokens", {"name": "u", "labels": {"team": "search"}})
    assert wider.status_code == 400
    made = team.post("/tokens", {"name": "u", "labels": {"env": "prod"}}).json()
    assert made["labels"] == {"team": "ads", "env": "prod"}


def test_a_token_makes_none_that_outlives_it(api: Api) -> None:
    week = token_of(api.post("/tokens", {"name": "week", "expires_in_days": 7}))
    longer = week.post("/tokens", {"name": "x", "expires_in_days": 8})
    assert (longer.status_code, longer.json()["errors"][0]["pointer"]) == (400, "/expires_at")
    same = week.post("/tokens", {"name": "x"}).json()["expires_at"]
    assert same == ApiToken.objects.get(name="week").expires_at.isoformat().replace("+00:00", "Z")
    shorter = week.post("/tokens", {"name": "y", "expires_in_days": 3})
    assert shorter.status_code == 201
    service = week.post("/tokens", {"name": "z", "service": True})
    assert (service.status_code, service.json()["errors"][0]["pointer"]) == (403, "/service")


def signed_in(name: str, password: str) -> Client:
    client = Client()
    assert client.post("/login", {"username": name, "password": password}).status_code == 302
    return client


def test_tokens_end_with_the_password_and_those_of_services_do_not(operator: User) -> None:
    old, new = "an old password of Anna's", "a new password of Anna's"
    operator.set_password(old)
    operator.save()
    ordinary = Api(tokens.create(operator, "laptop", "tests")[1])
    service = Api(tokens.create(operator, TokenSettings("ci", service=True), "tests")[1])
    page = signed_in("anna", old)
    answer = page.post("/password", {"old_password": old, "new_password1": new, "new_password2": new})
    assert answer.status_code == 302
    assert ordinary.get("/fleets").status_code == 401
    assert service.get("/fleets").status_code == 200
    assert page.get("/api/v1/fleets").status_code == 200
    ended = AuditEntry.objects.get(verb="tokens.revoke")
    assert (ended.actor, ended.target, ended.before["ended_by"]) == ("anna", "anna/laptop", "new password")
    # All in one transaction.
    assert AuditEntry.objects.get(verb="accounts.change_password").write == ended.write


def test_another_hash_of_the_same_password_ends_nothing(operator: User, settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    operator.set_password("an old password of Anna's")
    operator.save()
    laptop = Api(tokens.create(operator, "laptop", "tests")[1])
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.Argon2PasswordHasher",
        "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    ]
    before = operator.password
    signed_in("anna", "an old password of Anna's")
    assert User.objects.get().password != before
    assert laptop.get("/fleets").status_code == 200


@pytest.mark.parametrize(
    ("machine_user", "actor"), [("root", "root"), ("", "manage.py changepassword")], ids=["user", "program"]
)
def test_a_command_that_sets_a_password_ends_them_too(
    operator: User, monkeypatch: pytest.MonkeyPatch, machine_user: str, actor: str
) -> None:
    """And the audit log has who gave the command, not whose password it is."""
    monkeypatch.setenv("USER", machine_user)
    monkeypatch.setattr("sys.argv", ["./manage.py", "changepassword", "anna"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: "whatever an operator typed 1")
    laptop = Api(tokens.create(operator, "laptop", "tests")[1])
    call_command("changepassword", "anna", stdout=StringIO())
    assert laptop.get("/fleets").status_code == 401
    ended = AuditEntry.objects.get(verb="tokens.revoke")
    assert (ended.actor, ended.origin, ended.target) == (actor, "server", "anna/laptop")


def test_a_one_time_password_that_gives_way_ends_none() -> None:
    one_time, own = accounts.create("otto", "tests"), "a password of Otto's own"
    otto = User.objects.get(username="otto")
    token = Api(tokens.create(otto, "made for him", "tests")[1])
    page = signed_in("otto", one_time)
    given = {"old_password": one_time, "new_password1": own, "new_password2": own}
    assert page.post("/password", given).status_code == 302
    assert not ForcedPasswordChange.objects.exists()
    assert token.get("/fleets").status_code == 200


def test_password_and_tokens_change_together_or_not_at_all(
    operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "an old password of Anna's", "a new password of Anna's"
    operator.set_password(old)
    operator.save()
    laptop = Api(tokens.create(operator, "laptop", "tests")[1])
    page = signed_in("anna", old)
    page.raise_request_exception = False

    def fail(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("the process dies here")

    with monkeypatch.context() as patched:
        patched.setattr(UnitOfWork, "audit", fail)  # of the first token, when the password is saved
        given = {"old_password": old, "new_password1": new, "new_password2": new}
        assert page.post("/password", given).status_code == 500
    assert User.objects.get().check_password(old)
    assert laptop.get("/fleets").status_code == 200


def test_a_new_secret_key_with_the_former_one_beside_it(operator: User, settings: Any) -> None:
    used, unused = (tokens.create(operator, name, "tests")[1] for name in ("used", "unused"))
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another-" * 10
    assert Api(used).get("/fleets").status_code == 401
    settings.SECRET_KEY_FALLBACKS = ["no such key, but long enough for one " * 2, former]
    assert Api(used).get("/fleets").status_code == 200
    # It has been hashed anew.
    settings.SECRET_KEY_FALLBACKS = []
    assert Api(used).get("/fleets").status_code == 200
    assert Api(unused).get("/fleets").status_code == 401
