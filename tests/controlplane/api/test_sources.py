"""``/fleets/{fleet}/sources`` and what it means for replicas that a source has registered."""

from typing import Any

import pytest
import redis
from django.contrib.auth.models import User

from controlplane.discovery import last_lists
from controlplane.discovery.last_lists import LastList
from controlplane.models import AuditEntry, DiscoverySource, Event, Replica, ReplicaOwner, RoleGrant
from controlplane.services import fleet_files, tokens
from controlplane.services.errors import Conflict
from routing.contract.fleet_file import dump, loads
from routing.contract.fleet_file.sources import source_rules
from tests.controlplane.conftest import Api

FILE = {"name": "pods", "file": {"path": "llm.yaml"}, "replica": {"site": "east"}}


@pytest.fixture
def source(api: Api, llm: str) -> DiscoverySource:
    """That has registered replica b."""
    assert api.post("/fleets/llm/sources", FILE).status_code == 201
    row = DiscoverySource.objects.get()
    ReplicaOwner.objects.create(replica=Replica.objects.get(name="b"), source=row)
    return row


def test_one_is_made_read_changed_and_deleted(api: Api, llm: str) -> None:
    made = api.post("/fleets/llm/sources", FILE)
    assert made.status_code == 201
    assert made.json() | {"created_at": "", "updated_at": "", "since": ""} == {
        "name": "pods",
        "kind": "file",
        "file": {"path": "llm.yaml"},
        "replica": {"site": "east"},
        "resync_s": 2.0,
        "paused": False,
        "state": "waiting",
        "reason": "not listed yet",
        "since": "",
        "frozen_since": None,
        "replicas": 0,
        "frozen": 0,
        "oldest_missing_s": None,
        "last_list": None,
        "created_at": "",
        "updated_at": "",
        "changed": ["created"],
    }
    assert [one["name"] for one in api.get("/fleets/llm/sources").json()["results"]] == ["pods"]
    changed = api.patch(
        "/fleets/llm/sources/pods", {"replica": {"site": None, "version": "v2"}}, if_match='"1"'
    )
    assert changed.json()["replica"] == {"version": "v2"}
    assert changed.json()["changed"] == ["replica.site: east → not set", "replica.version: not set → v2"]
    assert changed["ETag"] == '"2"'
    assert api.patch("/fleets/llm/sources/pods", {"resync_s": 5}, if_match='"1"').status_code == 412
    assert api.get("/fleets/llm/sources/pods")["ETag"] == '"2"'
    assert api.delete("/fleets/llm/sources/pods").status_code == 204
    assert api.get("/fleets/llm/sources/pods").status_code == 404
    verbs = AuditEntry.objects.filter(verb__startswith="sources.").order_by("pk")
    assert [entry.verb for entry in verbs] == ["sources.create", "sources.update", "sources.delete"]
    assert Event.objects.filter(text="anna made source pods (file)", fleet_name="llm").exists()


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({"name": "pods"}, "", "needs one of file"),
        ({**FILE, "name": "Pods"}, "/name", "is not a valid name"),
        ({**FILE, "file": {}}, "/file", 'needs "path": add it'),
        ({**FILE, "file": {"path": "/etc/x.yaml"}}, "/file/path", "must be the path of a file below"),
        ({**FILE, "file": {"path": "../x.yaml"}}, "/file/path", "must be the path of a file below"),
        ({**FILE, "file": {"path": "x.txt"}}, "/file/path", "must end in .yaml, .yml, .json"),
        ({**FILE, "resync_s": 0.1}, "/resync_s", "must be from 1 to 300 seconds"),
        ({**FILE, "replica": {"url": "http://a"}}, "/replica/url", 'unknown field "url"'),
        ({**FILE, "replica": {"hardware": "h100"}}, "/replica/hardware", "there is no hardware class"),
        ({**FILE, "flie": {}}, "/flie", 'did you mean "file"'),
        ({**FILE, "dns": {"name": "a.example"}}, "/dns", "is beside file: a source is of one kind"),
        ({"name": "x", "kubernetes": {"namespace": "m"}}, "/kubernetes", 'needs "service"'),
        (
            {"name": "x", "kubernetes": {"namespace": "M", "service": "s"}},
            "/kubernetes/namespace",
            "is no name of a namespace",
        ),
        (
            {"name": "x", "kubernetes": {"namespace": "m", "service": "s", "port": "99999"}},
            "/kubernetes/port",
            "must be the name of a port",
        ),
        (
            {"name": "x", "kubernetes": {"namespace": "m", "service": "s", "labels": {"zone": "x"}}},
            "/kubernetes/labels/zone",
            'unknown field "zone"',
        ),
        ({"name": "x", "dns": {"name": "llm"}}, "/dns/name", "must be a whole name in DNS"),
        ({"name": "x", "dns": {"name": "10.0.0.1"}}, "/dns/name", "is an address"),
        (
            {"name": "x", "dns": {"name": "a.example", "type": "srv", "port": 1}},
            "/dns/port",
            "SRV records say the ports",
        ),
        (
            {"name": "x", "dns": {"name": "a.example", "nameservers": ["ns.example"]}},
            "/dns/nameservers/0",
            "must be an address",
        ),
        (
            {"name": "x", "dns": {"name": "a.example", "path_prefix": "v1"}},
            "/dns/path_prefix",
            "must begin with",
        ),
    ],
)
def test_wrong_settings_are_refused_at_the_field(
    api: Api, llm: str, settings: dict[str, Any], pointer: str, words: str
) -> None:
    answer = api.post("/fleets/llm/sources", settings)
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert (error["pointer"], words in error["detail"]) == (pointer, True), error


def test_names_are_taken_once_and_stay(api: Api, source: DiscoverySource) -> None:
    again = api.post("/fleets/llm/sources", FILE)
    assert (again.status_code, again.json()["errors"][0]["pointer"]) == (409, "/name")
    renamed = api.patch("/fleets/llm/sources/pods", {"name": "x"})
    assert "a source's name cannot change" in renamed.json()["errors"][0]["detail"]


def test_the_last_list_and_what_is_frozen_are_told(
    api: Api, source: DiscoverySource, redis_client: "redis.Redis"
) -> None:
    import time

    last = LastList(at=time.time() - 2, took_s=0.01, entries=3, left_alone=["a"], refused={"c": "no"})
    last_lists.store(redis_client, str(source.uid), last)
    told = api.get("/fleets/llm/sources/pods").json()
    assert told["replicas"] == 1
    assert told["last_list"]["age_s"] == pytest.approx(2, abs=1)
    assert (told["last_list"]["entries"], told["last_list"]["refused"]) == (3, {"c": "no"})


def test_a_replica_says_who_put_it_there(api: Api, source: DiscoverySource) -> None:
    a, b = api.get("/fleets/llm/replicas").json()["results"]
    assert a["managed_by"] is None
    assert b["managed_by"] == {"source": "pods", "kind": "file", "missing_since": None, "drained_at": None}
    assert api.get("/fleets/llm/replicas/b").json()["managed_by"] == b["managed_by"]


def test_people_steer_its_traffic_and_leave_the_rest_to_its_source(api: Api, source: DiscoverySource) -> None:
    assert api.patch("/fleets/llm/replicas/b", {"weight": 1.5, "admin_state": "draining"}).status_code == 200
    for changes in ({"url": "http://127.0.0.1:9199"}, {"site": "west", "weight": 1.0}):
        refused = api.patch("/fleets/llm/replicas/b", changes)
        assert refused.status_code == 409
        assert (
            "Replica llm/b is managed by source pods (file), which says what it is"
            in refused.json()["detail"]
        )
    removed = api.delete("/fleets/llm/replicas/b")
    assert removed.status_code == 409
    assert "is managed by source pods (file), which would register it again" in removed.json()["detail"]
    assert api.delete("/fleets/llm/sources/pods").status_code == 204
    assert api.delete("/fleets/llm/replicas/b").status_code == 204


def test_fleet_files_leave_it_alone(api: Api, source: DiscoverySource) -> None:
    text = dump(fleet_files.read())
    assert "9101" in text
    assert "9102" not in text
    assert fleet_files.apply(loads(text), "anna") == []
    assert Replica.objects.filter(name="b").exists()
    mine = text.replace("name: a", "name: b")
    with pytest.raises(Conflict, match="Replica llm/b is managed by source pods"):
        fleet_files.apply(loads(mine), "anna")


def test_making_one_needs_a_role_for_all_fleets(api: Api, source: DiscoverySource) -> None:
    api.patch("/fleets/llm", {"labels": {"team": "search"}})
    user = User.objects.create_user("sam")
    RoleGrant.objects.create(user=user, role="administer", selector={"team": "search"})
    limited = Api(tokens.create(user, "t", "tests")[1])
    assert limited.get("/fleets/llm/sources/pods").status_code == 200
    assert limited.post("/fleets/llm/sources", {**FILE, "name": "x"}).status_code == 403
    assert limited.patch("/fleets/llm/sources/pods", {"resync_s": 5}).status_code == 403
    assert limited.delete("/fleets/llm/sources/pods").status_code == 204


def test_one_is_paused_and_resumed(api: Api, source: DiscoverySource) -> None:
    paused = api.patch("/fleets/llm/sources/pods", {"paused": True}).json()
    assert (paused["state"], paused["paused"], paused["changed"]) == (
        "paused",
        True,
        ["paused: false → true"],
    )
    assert paused["reason"] == "paused: its replicas stay as they are"
    assert api.post("/fleets/llm/sources/pods/resync").status_code == 409
    assert api.patch("/fleets/llm/replicas/b", {"site": "west"}).status_code == 409, "it is still its own"
    again = api.patch("/fleets/llm/sources/pods", {"paused": False}).json()
    assert (again["state"], again["reason"], again["changed"]) == (
        "waiting",
        "not listed yet",
        ["paused: true → false"],
    )
    texts = list(Event.objects.filter(text__contains=" source pods").values_list("text", flat=True))
    assert "anna paused source pods; 1 of its replicas stay as they are" in texts
    assert "anna resumed source pods" in texts
    made = api.post("/fleets/llm/sources", {**FILE, "name": "later", "paused": True}).json()
    assert made["state"] == "paused"


def test_whoever_administers_the_fleet_may_pause_and_nothing_else(api: Api, source: DiscoverySource) -> None:
    api.patch("/fleets/llm", {"labels": {"team": "search"}})
    user = User.objects.create_user("sam")
    RoleGrant.objects.create(user=user, role="administer", selector={"team": "search"})
    limited = Api(tokens.create(user, "t", "tests")[1])
    assert limited.patch("/fleets/llm/sources/pods", {"paused": True}).status_code == 200
    assert limited.patch("/fleets/llm/sources/pods", {"paused": False, "resync_s": 5}).status_code == 403
    assert limited.patch("/fleets/llm/sources/pods", {}).status_code == 403
    assert limited.post("/fleets/llm/source-trials", FILE).status_code == 403


def test_a_resync_without_a_conductor_says_that_it_was_not_listed(api: Api, source: DiscoverySource) -> None:
    answer = api.post("/fleets/llm/sources/pods/resync")
    assert (answer.status_code, answer.json()["listed"]) == (200, False)


def test_a_trial_without_a_conductor_is_refused_in_words(api: Api, llm: str) -> None:
    answer = api.post("/fleets/llm/source-trials", FILE)
    assert answer.status_code == 503
    assert "No conductor leads" in answer.json()["detail"]
    wrong = api.post("/fleets/llm/source-trials", {**FILE, "flie": {}})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/flie")


def test_sources_of_a_new_fleet_are_made_at_their_address(api: Api, llm: str) -> None:
    for answer in (
        api.post("/fleets", {"name": "x", "protocol": "openai", "sources": []}),
        api.patch("/fleets/llm", {"sources": [FILE]}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/sources")


def test_a_fleet_has_so_many_sources_and_no_more(api: Api, llm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rules, "MOST_SOURCES", 1)
    assert api.post("/fleets/llm/sources", FILE).status_code == 201
    refused = api.post("/fleets/llm/sources", {**FILE, "name": "x"})
    assert (refused.status_code, "has 1 sources, and can have no more" in refused.json()["detail"]) == (
        409,
        True,
    )
