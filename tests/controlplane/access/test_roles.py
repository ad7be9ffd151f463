"""Roles by label of fleets: what is not for an account does not exist, and what it may not do says why."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.access.grants import Grant
from controlplane.models import AuditEntry, Fleet, ForcedPasswordChange
from controlplane.services import accounts, tokens
from controlplane.services.errors import ServiceError
from tests.controlplane.conftest import Api

pytestmark = pytest.mark.django_db

SEARCH = {"team": "search", "env": "prod"}


@pytest.fixture
def fleets(make_fleet: Callable[..., str]) -> None:
    replicas = [{"name": "a", "url": "http://127.0.0.1:9101", "credential": "env:SEARCH_KEY"}]
    make_fleet("find", labels=SEARCH, replicas=replicas)
    ads = [{"name": "a", "url": "http://127.0.0.1:9201"}]
    make_fleet("bid", labels={"team": "ads"}, replicas=ads, credential="env:ADS_KEY")
    make_fleet("plain")


def account(*roles: str) -> Api:
    """The token of an account with these roles."""
    accounts.create("sam", "tests", [Grant.parse(role) for role in roles])
    ForcedPasswordChange.objects.all().delete()
    return Api(tokens.create(User.objects.get(username="sam"), "laptop", "tests")[1])


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["name"] for row in answer.json()["results"]]


@pytest.mark.parametrize(
    ("roles", "seen"),
    [
        (["read"], ["bid", "find", "plain"]),
        (["read:team=search"], ["find"]),
        (["read:team=search,env=prod"], ["find"]),
        (["read:team=search,env=test"], []),
        (["read:team=search", "administer:team=ads"], ["bid", "find"]),
    ],
)
def test_only_fleets_of_ones_roles_exist(fleets: None, roles: list[str], seen: list[str]) -> None:
    sam = account(*roles)
    assert names(sam.get("/fleets")) == seen
    for name in ("bid", "find", "plain"):
        for below in (
            "",
            "/policy",
            "/replicas",
            "/replicas/a",
            "/revisions",
            "/revisions/1",
            "/live",
            "/history",
        ):
            if (name, below) == ("plain", "/replicas/a"):
                continue
            answer = sam.get(f"/fleets/{name}{below}")
            expected = (200, 503) if name in seen else (404,)
            assert answer.status_code in expected, (name, below, answer.content)
            if name not in seen:
                others = {"bid", "find", "plain"} - set(seen) - {name}
                assert not any(f" {other}" in answer.json()["detail"] for other in others)


def test_a_role_is_not_more_than_it_says(fleets: None) -> None:
    sam = account("read", "operate:team=search")
    assert sam.patch("/fleets/find/replicas/a", {"weight": 2.0}).status_code == 200
    assert sam.patch("/fleets/find/replicas/a", {"admin_state": "draining"}).status_code == 200
    assert sam.patch("/fleets/find/policy", {"strategy": "round_robin"}).status_code == 200
    assert sam.post("/fleets/find/revisions/1/restore").status_code == 200
    for refused in (
        sam.patch("/fleets/find/replicas/a", {"url": "http://127.0.0.1:9102"}),
        sam.patch("/fleets/find/replicas/a", {"weight": 1.0, "credential": None}),
        sam.patch("/fleets/find", {"aliases": ["x"]}),
        sam.delete("/fleets/find/replicas/a"),
        sam.delete("/fleets/find"),
        sam.post("/fleets/find/replicas", {"name": "b", "url": "http://127.0.0.1:9103"}),
    ):
        assert refused.status_code == 403
        expected = "Your role in fleet find is operate; this needs administer. Ask an administrator."
        assert refused.json()["detail"] == expected
    refused = sam.patch("/fleets/bid/policy", {"strategy": "round_robin"})
    assert refused.status_code == 403
    assert "Your role in fleet bid is read; this needs operate." in refused.json()["detail"]


def test_a_teams_administrator_makes_fleets_of_its_own_only(fleets: None) -> None:
    sam = account("administer:team=search")
    new = {"name": "rank", "protocol": "generic"}
    for labels in ({}, {"labels": {"team": "ads"}}, {"labels": None}):
        refused = sam.post("/fleets", {**new, **labels})
        assert refused.status_code == 403
        assert "give the fleet labels" in refused.json()["detail"]
        assert refused.json()["errors"][0]["pointer"] == "/labels"
    made = sam.post("/fleets", {**new, "labels": {"team": "search"}})
    assert (made.status_code, made.json()["labels"]) == (201, {"team": "search"})
    for change in ({"labels": {}}, {"labels": {"team": "ads"}}, {"labels": None}):
        assert sam.patch("/fleets/rank", change).status_code == 403
    assert sam.patch("/fleets/rank", {"labels": SEARCH}).json()["labels"] == SEARCH
    for change in ({"default": True}, {"match": [{"path_prefix": "/"}]}, {"match": [{"host": "x.example"}]}):
        refused = sam.patch("/fleets/rank", change)
        assert refused.status_code == 403
        assert "needs administer for all fleets" in refused.json()["detail"]
    assert sam.delete("/fleets/rank").status_code == 204


def test_another_teams_credential_cannot_be_taken(fleets: None) -> None:
    sam = account("administer:team=search")
    replica = {"name": "mine", "url": "http://127.0.0.1:9999"}
    stolen = {**replica, "credential": "env:ADS_KEY"}
    for refused, pointer in (
        (sam.post("/fleets/find/replicas?trial=no", stolen), "/credential"),
        (sam.patch("/fleets/find/replicas/a?trial=no", {"credential": "env:ADS_KEY"}), "/credential"),
        (sam.patch("/fleets/find?trial=no", {"credential": "env:ADS_KEY"}), "/credential"),
        (sam.patch("/fleets/find?trial=no", {"tls": {"ca": "file:/etc/shadow"}}), "/tls/ca"),
        (
            sam.post("/fleets", {"name": "x", "protocol": "generic", "labels": SEARCH, "replicas": [stolen]}),
            "/replicas/0/credential",
        ),
        (sam.post("/trial-probes", {"url": replica["url"], "credential": "env:ADS_KEY"}), "/credential"),
    ):
        assert refused.status_code == 403, refused.content
        assert refused.json()["errors"][0]["pointer"] == pointer
    assert sam.post("/trial-probes", {"url": replica["url"], "fleet": "bid"}).status_code == 404
    own = {**replica, "credential": "env:SEARCH_KEY"}
    assert sam.post("/fleets/find/replicas?trial=no", own).status_code == 201


@pytest.mark.parametrize("path", ["/audit", "/client-keys", "/client-keys/live", "/system"])
def test_what_belongs_to_no_fleet_needs_a_role_for_all(fleets: None, path: str) -> None:
    refused = account("administer:team=search").get(path)
    assert refused.status_code == 403
    expected = "Your role is administer team=search; this needs read for all fleets. Ask an administrator."
    assert refused.json()["detail"] == expected


def test_hardware_is_read_by_all_and_changed_by_administrators_of_all(fleets: None) -> None:
    sam = account("administer:team=search")
    assert sam.get("/hardware-classes").status_code == 200
    assert sam.get("/accelerators").status_code == 200
    assert sam.post("/hardware-classes", {"name": "h100"}).status_code == 403
    assert sam.post("/accelerators", {"name": "n/0", "memory_bytes": 1}).status_code == 403


def test_events_of_other_fleets_are_not_told(fleets: None) -> None:
    sam = account("read:team=search")
    seen = sam.get("/events").json()["results"]
    assert {row["fleet"] for row in seen} == {"find"}
    assert {row["write"] for row in seen} == {None}
    assert sam.get("/events?fleet=bid").status_code == 404


def test_an_accelerators_list_holds_the_replicas_of_ones_fleets(fleets: None, api: Api) -> None:
    assert api.post("/accelerators", {"name": "n1/gpu0", "memory_bytes": 1000}).status_code == 201
    for fleet in ("find", "bid"):
        on = {"accelerators": ["n1/gpu0"], "memory_bytes": 100}
        assert api.patch(f"/fleets/{fleet}/replicas/a", on).status_code == 200
    seen = account("read:team=search").get("/accelerators/n1/gpu0").json()
    assert [one["fleet"] for one in seen["replicas"]] == ["find"]
    assert seen["held_bytes"] == 200


def test_roles_that_are_replaced_hold_at_the_next_request(fleets: None) -> None:
    sam = account("administer")
    assert User.objects.get(username="sam").is_staff
    accounts.set_roles("sam", [Grant.parse("operate:team=ads")], "tests")
    assert names(sam.get("/fleets")) == ["bid"]
    assert not User.objects.get(username="sam").is_staff
    entry = AuditEntry.objects.get(verb="accounts.set_roles")
    assert (entry.before, entry.after) == (
        {"roles": "administer all fleets"},
        {"roles": "operate team=ads"},
    )


def test_a_fleet_that_loses_its_label_is_gone_for_its_team(fleets: None) -> None:
    sam = account("read:team=search")
    Fleet.objects.filter(name="find").update(labels={})
    assert names(sam.get("/fleets")) == []
    assert sam.get("/fleets/find").status_code == 404


def test_a_superuser_keeps_everything(operator: User) -> None:
    User.objects.create_superuser("root")
    with pytest.raises(ServiceError, match="superuser"):
        accounts.set_roles("root", [Grant.parse("read")], "tests")


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", '"" is no role: use read, operate, administer'),
        ("write", '"write" is no role'),
        ("read:", '"" is no label with a value: write it as team=search'),
        ("read:team", '"team" is no label with a value'),
        ("read:Team=a", '"Team" is not a valid label'),
        ("read:team=a b", '"a b" is not a valid value'),
        ("read:team=a,team=b", 'a fleet has one value of "team" only'),
    ],
)
def test_a_role_that_is_none_says_how_to_write_it(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Grant.parse(written)


@pytest.mark.parametrize(
    ("labels", "pointer", "why"),
    [
        ({"Team": "a"}, "/labels/Team", "is not a valid label"),
        ({"team": ""}, "/labels/team", "is not a valid value"),
        ({"team": 1}, "/labels/team", "must be text, not the number 1: put it in quotes"),
        ({"a\n": "b"}, "/labels/a\n", "is not a valid label"),
        (["team"], "/labels", "must be labels with their values, not a list"),
        ({f"l{i}": "x" for i in range(17)}, "/labels", "holds 17 labels; at most 16"),
    ],
)
def test_labels_that_are_wrong_are_named(api: Api, llm: str, labels: Any, pointer: str, why: str) -> None:
    refused = api.patch("/fleets/llm", {"labels": labels})
    assert refused.status_code == 400
    [error] = refused.json()["errors"]
    assert error["pointer"] == pointer
    assert why in error["detail"]


def test_labels_are_changed_and_found(api: Api, llm: str, make_fleet: Callable[..., str]) -> None:
    make_fleet("other")
    changed = api.patch("/fleets/llm", {"labels": {"team": "search"}})
    assert changed.json()["changed"] == ["labels.team: not set → search"]
    assert names(api.get("/fleets?search=search")) == ["llm"]
    assert api.patch("/fleets/llm", {"labels": None}).json()["labels"] == {}
