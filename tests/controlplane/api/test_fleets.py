"""``/fleets`` and ``/fleets/{fleet}``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from controlplane.models import AuditEntry, Event, Fleet, Replica
from controlplane.probes import targets
from routing.contract import redis_keys
from routing.contract.table import Match, Tls, decode_manifest, decode_snapshot
from tests.controlplane.api.test_replicas import store_frame
from tests.controlplane.conftest import LLM, Api


def manifest(redis_client: Any) -> Any:
    return decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))


def test_create_with_replicas(api: Api, redis_client: Any) -> None:
    answer = api.post("/fleets", LLM)
    assert answer.status_code == 201
    body = answer.json()
    assert (body["name"], body["replicas"], body["health"]) == ("llm", 2, {"checking": 2})
    assert (body["revision"], body["published"]) == (1, True)
    assert body["probe"]["preset"] == "llama.cpp"

    assert manifest(redis_client).fleets == {"llm": 1}
    assert manifest(redis_client).aliases == {"chat": "llm"}
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    replicas = [(r.name, r.url, r.weight, r.health, r.has_passed) for r in snapshot.replicas]
    assert replicas == [
        ("a", "http://127.0.0.1:9101", 1.0, "checking", False),
        ("b", "http://127.0.0.1:9102", 2.0, "checking", False),
    ]
    assert AuditEntry.objects.filter(verb="fleets.create", actor="anna").count() == 1
    assert Event.objects.filter(text="anna created fleet llm").count() == 1


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"name": "Upper"}, "/name", "not a valid name"),
        ({"name": None}, "/name", "has no value"),
        ({"protocol": "grpc"}, "/protocol", "must be one of openai, open-inference, generic"),
        ({"aliases": "chat"}, "/aliases", "must be a list"),
        ({"aliases": ["llm"]}, "/aliases/0", "already this fleet's own name"),
        ({"aliases": ["x", "x"]}, "/aliases/1", "already listed here"),
        ({"aliases": ["taken"]}, "/aliases/0", "already an alias of fleet other"),
        ({"aliases": ["other"]}, "/aliases/0", "already the name of fleet other"),
        ({"adapters": "sql"}, "/adapters", "must be a list"),
        ({"adapters": ["chat"]}, "/adapters/0", "already listed here"),
        ({"adapters": ["llm"]}, "/adapters/0", "already this fleet's own name"),
        ({"adapters": ["taken"]}, "/adapters/0", "already an alias of fleet other"),
        ({"adapters": ["lora"]}, "/adapters/0", "already an adapter of fleet other"),
        ({"aliases": ["lora"]}, "/aliases/0", "already an adapter of fleet other"),
        ({"name": "taken"}, "/name", "already an alias of fleet other"),
        ({"protocoll": "openai"}, "/protocoll", 'did you mean "protocol"?'),
        ({"match": [{"host": "x:80"}]}, "/match/0/host", "leave it out"),
        ({"match": [{"host": "taken.test"}]}, "/match/0", "leads to fleet other already: fleet llm needs"),
        ({"match": [{"path_prefix": "/a"}, {"path_prefix": "/a/"}]}, "/match/1", "listed twice"),
        ({"probe": {"preset": "vlm"}}, "/probe/preset", 'did you mean "vllm"?'),
        ({"policy": {"strategy": "best"}}, "/policy/strategy", 'unknown strategy "best"'),
        ({"policy": {"slo": {"latency_s": -1}}}, "/policy/slo/latency_s", "must be from"),
        ({"replicas": [{"name": "a", "url": "ftp://x"}]}, "/replicas/0/url", "write http://host:port"),
        ({"replicas": [{"name": "a", "url": "http://169.254.169.254"}]}, "/replicas/0/url", "link-local"),
        ({"replicas": [{"name": "a", "url": "http://h", "hardware": "h10"}]}, "/replicas/0/hardware", "h100"),
        ({"replicas": [{"name": "a", "url": "http://h", "site": "E 1"}]}, "/replicas/0/site", "valid name"),
    ],
)
def test_refused_and_explained(
    api: Api, make_fleet: Callable[..., str], change: Any, pointer: str, words: str
) -> None:
    make_fleet("other", aliases=["taken"], adapters=["lora"], match=[{"host": "taken.test"}])
    api.post("/hardware-classes", {"name": "h100"})
    answer = api.post("/fleets", {**LLM, **change})
    assert answer.status_code == 400, answer.content
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]
    assert not Fleet.objects.exclude(name="other").exists()
    assert not Replica.objects.exists()


def test_a_missing_field_is_named(api: Api) -> None:
    problem = api.post("/fleets", {"name": "x"}).json()
    assert problem["errors"] == [
        {"pointer": "", "detail": 'a fleet needs "protocol": add it, for example protocol: openai'}
    ]


def test_a_taken_name_is_a_conflict(api: Api, llm: str) -> None:
    answer = api.post("/fleets", LLM)
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["detail"].startswith("There is a fleet llm already: choose another name, or change that")
    assert problem["errors"][0]["pointer"] == "/name"


def test_two_replicas_of_one_name_are_refused(api: Api) -> None:
    twice = [{"name": "a", "url": "http://h:1"}, {"name": "a", "url": "http://h:2"}]
    answer = api.post("/fleets", {**LLM, "replicas": twice})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/replicas/1/name")
    assert not Fleet.objects.exists()


def test_list_search_and_pages(api: Api, make_fleet: Callable[..., str]) -> None:
    for name in ("one", "two", "three"):
        make_fleet(name, aliases=[f"{name}-alias"])
    assert [row["name"] for row in api.get("/fleets").json()["results"]] == ["one", "three", "two"]
    assert [row["name"] for row in api.get("/fleets?search=two-al").json()["results"]] == ["two"]
    page = api.get("/fleets?page_size=2&page=2").json()
    assert (page["count"], [row["name"] for row in page["results"]], page["next"]) == (3, ["two"], None)
    assert api.get("/fleets?page=9").status_code == 404
    assert api.get("/fleets?page_size=all").status_code == 400
    assert api.get("/fleets?page_size=1001").status_code == 400
    wrong = api.get("/fleets?serch=x")
    assert wrong.status_code == 400
    assert 'did you mean "search"?' in wrong.json()["detail"]


def test_change_aliases_and_probe(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm", {"aliases": ["chat", "talk"], "probe": {"period_s": 5}}).json()
    assert body["changed"] == ["aliases: chat → chat, talk", "probe.period_s: not set → 5"]
    assert body["probe"] | {"preset": "llama.cpp", "period_s": 5.0} == body["probe"]
    assert manifest(redis_client).aliases == {"chat": "llm", "talk": "llm"}
    assert body["revision"] == 1


def test_adapters(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm", {"adapters": ["sql", "org/Support"]}).json()
    assert (body["adapters"], body["changed"]) == (
        ["sql", "org/Support"],
        ["adapters: none → sql, org/Support"],
    )
    assert manifest(redis_client).adapters == {"sql": "llm", "org/Support": "llm"}
    kept = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert kept.adapters == ["sql", "org/Support"]
    # Each of the two lists is looked at beside the other, whichever is changed.
    for change in ({"adapters": ["chat"]}, {"aliases": ["sql"]}):
        (error,) = api.patch("/fleets/llm", change).json()["errors"]
        assert error["detail"].endswith("of this fleet: choose another")
    both = {"aliases": ["sql"], "adapters": ["chat"]}
    assert api.patch("/fleets/llm", both).json()["aliases"] == ["sql"]
    assert [row["name"] for row in api.get("/fleets?search=chat").json()["results"]] == ["llm"]
    assert api.patch("/fleets/llm", {"adapters": None}).json()["adapters"] == []
    assert manifest(redis_client).adapters == {}


def test_hosts_and_paths(api: Api, llm: str, redis_client: Any) -> None:
    wanted = {"match": [{"host": "LLM.test"}, {"path_prefix": "/v1/"}]}
    body = api.patch("/fleets/llm", wanted).json()
    assert body["match"] == [{"host": "llm.test", "path_prefix": ""}, {"host": "", "path_prefix": "/v1"}]
    assert body["changed"] == ["match: none → host llm.test, path_prefix /v1"]
    assert manifest(redis_client).matches == {"llm": [Match(host="llm.test"), Match(path_prefix="/v1")]}
    assert api.patch("/fleets/llm", wanted).json()["changed"] == []
    assert api.patch("/fleets/llm", {"match": None}).json()["match"] == []
    assert manifest(redis_client).matches == {}


def test_how_replicas_are_verified(api: Api, llm: str, redis_client: Any) -> None:
    def sent() -> Tls:
        return decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body")).tls

    ca = "file:/etc/switchyard/ca.pem"
    body = api.patch("/fleets/llm", {"tls": {"ca": ca}}).json()
    assert body["changed"] == [f"tls.ca: not set → {ca}"]
    body = api.patch("/fleets/llm", {"tls": {"server_name": "Model.test"}}).json()
    assert body["tls"] == {"ca": ca, "server_name": "model.test"}
    assert sent() == Tls(ca=ca, server_name="model.test")
    assert body["revision"] == 1, "it is no part of the policy"
    assert api.patch("/fleets/llm", {"tls": {"ca": None}}).json()["tls"]["ca"] == ""
    assert api.patch("/fleets/llm", {"tls": None}).json()["tls"] == {"ca": "", "server_name": ""}
    assert sent() == Tls()
    pem = api.patch("/fleets/llm", {"tls": {"ca": "-----BEGIN CERTIFICATE-----\nMII"}})
    assert pem.json()["errors"][0]["pointer"] == "/tls/ca"
    assert "env:NAME, not a certificate" in pem.json()["errors"][0]["detail"]


def test_a_credential_may_not_lead_into_the_data_folder(
    api: Api, llm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWITCHYARD_DATA_DIR")  # as where the folder is the usual one
    own = settings.DATA_DIR / "secret_key"
    (tmp_path / "link").symlink_to(own)
    for reference in (f"file:{own}", f"file:{tmp_path}/link"):
        words = (
            f"{reference} lies in Switchyard's own data folder, which is never sent to a replica; "
            "put the token into"
        )
        for answer in (
            api.patch("/fleets/llm", {"credential": reference}),
            api.patch("/fleets/llm/replicas/b", {"credential": reference}),
        ):
            assert answer.status_code == 400
            [error] = answer.json()["errors"]
            assert error["pointer"] == "/credential"
            assert words in error["detail"]


def test_a_credential_of_all_replicas(api: Api, llm: str, redis_client: Any) -> None:
    def sent() -> dict[str, str]:
        snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
        probed = targets.load([replica.uid for replica in snapshot.replicas])
        for replica in snapshot.replicas:
            assert probed[replica.uid].credential == replica.credential
        return {replica.name: replica.credential for replica in snapshot.replicas}

    body = api.patch("/fleets/llm", {"credential": "env:VLLM_KEY"}).json()
    assert body["credential"] == "env:VLLM_KEY"
    assert body["changed"] == ["credential: not set → env:VLLM_KEY"]
    api.patch("/fleets/llm/replicas/b?trial=no", {"credential": "file:/etc/b"})
    assert sent() == {"a": "env:VLLM_KEY", "b": "file:/etc/b"}
    assert api.get("/fleets/llm/replicas/a").json()["credential"] == ""
    assert api.patch("/fleets/llm", {"credential": None}).json()["credential"] == ""
    assert sent() == {"a": "", "b": "file:/etc/b"}
    refused = api.patch("/fleets/llm", {"credential": "hf_s3cret"})
    assert refused.json()["errors"][0]["pointer"] == "/credential"
    assert "hf_s3cret" not in refused.content.decode()


def test_null_goes_back_to_the_default(api: Api, make_fleet: Callable[..., str]) -> None:
    make_fleet("x", aliases=["y"], served_model="z", default=True, probe={"preset": "vllm"})
    names = ("aliases", "served_model", "default", "probe")
    body = api.patch("/fleets/x", dict.fromkeys(names)).json()
    assert [body[name] for name in names[:3]] == [[], "", False]
    assert body["probe"]["preset"] == "http"
    assert api.patch("/fleets/x", {"protocol": None}).json()["errors"][0]["pointer"] == "/protocol"
    assert api.patch("/fleets/x", {"nothing": None}).json()["errors"][0]["pointer"] == "/nothing"


def test_a_new_preset_forgets_what_fitted_the_old_one(api: Api, make_fleet: Callable[..., str]) -> None:
    make_fleet("x", probe={"preset": "http", "path": "/healthz", "period_s": 5})
    body = api.patch("/fleets/x", {"probe": {"preset": "vllm"}}).json()
    assert (body["probe"]["preset"], body["probe"]["path"], body["probe"]["period_s"]) == ("vllm", None, 5.0)


def test_only_one_fleet_is_the_default(api: Api, make_fleet: Callable[..., str], redis_client: Any) -> None:
    make_fleet("one", default=True)
    make_fleet("two")
    assert manifest(redis_client).default == "one"
    assert api.patch("/fleets/two", {"default": True}).json()["default"] is True
    assert manifest(redis_client).default == "two"
    assert api.get("/fleets/one").json()["default"] is False


def test_all_that_is_wrong_with_a_new_fleets_replicas_is_told_at_once(api: Api) -> None:
    api.post("/hardware-classes", {"name": "h100"})
    replicas = [
        {"name": "a", "url": "http://10.0.0.1:8000", "hardware": "h10"},
        {"name": "b", "url": "http://10.0.0.2:8000", "weight": -1},
        {"name": "a", "url": "http://10.0.0.3:8000"},
    ]
    answer = api.post("/fleets?trial=no", {"name": "x", "protocol": "openai", "replicas": replicas})
    assert answer.status_code == 400
    assert {error["pointer"]: error["detail"] for error in answer.json()["errors"]} == {
        "/replicas/0/hardware": 'there is no hardware class "h10"; did you mean "h100"?',
        "/replicas/1/weight": "must be from 0 to 1000, not -1",
        "/replicas/2/name": 'the name "a" is already taken by replicas[0]: choose another',
    }


def test_a_fleet_that_loses_the_default_is_told(
    api: Api, make_fleet: Callable[..., str], redis_client: Any
) -> None:
    make_fleet("one", default=True)
    made = api.post("/fleets", {"name": "two", "protocol": "openai", "default": True}).json()
    taken = "default: moved from fleet one; requests that name no fleet now go to two"
    assert made["changed"] == ["created with 0 replicas", taken]
    texts = Event.objects.filter(fleet__name="one").values_list("text", flat=True)
    assert "anna made another fleet the default in place of one" in texts
    audit = AuditEntry.objects.get(verb="fleets.update", target="one")
    assert (audit.before, audit.after) == ({"default": True}, {"default": False})
    back = api.patch("/fleets/one", {"default": True}).json()
    assert back["changed"] == [
        "default: false → true",
        "default: moved from fleet two; requests that name no fleet now go to one",
    ]


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"name": "new"}, "/name", "cannot change"),
        ({"policy": {}}, "/policy", "change it at /api/v1/fleets/llm/policy"),
        ({"replicas": []}, "/replicas", "change them at /api/v1/fleets/llm/replicas"),
        ({"aliases": ["other"]}, "/aliases/0", "already the name of fleet other"),
        ({"probe": {"path": "/x"}}, "/probe/path", "has its own requests"),
        ({"default": "yes"}, "/default", "must be true or false"),
    ],
)
def test_a_change_refused_and_explained(
    api: Api, llm: str, make_fleet: Callable[..., str], changes: Any, pointer: str, words: str
) -> None:
    make_fleet("other")
    answer = api.patch("/fleets/llm", changes)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_its_own_name_may_be_repeated(api: Api, llm: str) -> None:
    assert api.patch("/fleets/llm", {"name": "llm"}).json()["changed"] == []


def test_delete_removes_it_from_the_table(api: Api, llm: str, redis_client: Any) -> None:
    etag = api.get("/fleets/llm")["ETag"]
    assert api.delete("/fleets/llm", if_match='"99"').status_code == 412
    assert api.delete("/fleets/llm", if_match=etag).status_code == 204
    assert api.get("/fleets/llm").status_code == 404
    assert manifest(redis_client).fleets == {}
    assert not redis_client.exists(redis_keys.fleet_key("llm"))
    assert Event.objects.filter(text="anna deleted fleet llm").exists()


def test_a_fleet_made_anew_is_newer_than_what_proxies_hold(api: Api, llm: str, redis_client: Any) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    api.delete("/fleets/llm")
    body = api.post("/fleets", {"name": "llm", "protocol": "generic"}).json()
    assert body["table_version"] == "1:3"
    assert manifest(redis_client).fleets == {"llm": 3}


def test_live_traffic_is_not_deleted_by_mistake(api: Api, llm: str, redis_client: Any) -> None:
    store_frame(redis_client)
    answer = api.delete("/fleets/llm")
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        "Fleet llm has live traffic: 1 requests a second, 3 in flight. Deleting it ends service to its "
        "clients, and removes its replica and all revisions permanently. To delete it anyway: "
        "DELETE /api/v1/fleets/llm?confirm=llm"
    )
    wrong = api.delete("/fleets/llm?confirm=lm")
    assert (wrong.status_code, wrong.json()["detail"]) == (
        400,
        'confirm is "lm", but the name of the fleet is "llm".',
    )
    assert Fleet.objects.exists()
    assert api.delete("/fleets/llm?confirm=llm").status_code == 204


def test_old_traffic_needs_no_confirmation(api: Api, llm: str, redis_client: Any) -> None:
    store_frame(redis_client, age_s=60)
    assert api.delete("/fleets/llm").status_code == 204


def test_unknown_fleet_is_answered_with_the_likely_one(api: Api, llm: str) -> None:
    answer = api.get("/fleets/lm")
    assert answer.status_code == 404
    assert answer.json()["detail"] == 'There is no fleet "lm"; did you mean "llm"?'
