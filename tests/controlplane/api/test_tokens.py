"""``/tokens``: one's own are made, everybody's are seen and revoked by staff."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.models import ApiToken, AuditEntry
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
    assert Api(again.json()["token"]).post("/tokens", {"name": "y"}).status_code == 403
    assert Api(again.json()["token"]).get("/fleets").status_code == 200


def test_staff_see_all_and_others_their_own(api: Api, reader: Api) -> None:
    assert {row["user"] for row in api.get("/tokens").json()["results"]} == {"anna", "rolf"}
    assert {row["user"] for row in reader.get("/tokens").json()["results"]} == {"rolf"}
    assert reader.post("/tokens", {"name": "x"}).status_code == 403
    mine = ApiToken.objects.get(user__username="rolf").pk
    assert reader.delete(f"/tokens/{mine}").status_code == 403
    assert api.delete(f"/tokens/{mine}").status_code == 204
    assert reader.get("/tokens").status_code == 401


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
