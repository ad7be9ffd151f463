"""``/fleets/{fleet}/revisions``: what was, and going back to it."""

from typing import Any

from controlplane.models import Event, PolicyRevision
from routing.contract import redis_keys
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api


def test_lists_newest_first(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    page = api.get("/fleets/llm/revisions").json()
    assert [row["number"] for row in page["results"]] == [2, 1]
    first = page["results"][1]
    assert first["summary"] == "created"
    assert first["weights"] == {"a": None, "b": 2.0}
    assert first["policy"]["strategy"] == "least_expected_work"


def test_search(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    assert api.get("/fleets/llm/revisions?search=round_robin").json()["count"] == 1


def test_restores_policy_and_weights_as_a_new_revision(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    api.patch("/fleets/llm/replicas/b", {"weight": 5.0})
    answer = api.post("/fleets/llm/revisions/1/restore")
    assert answer.status_code == 200
    body = answer.json()
    assert body["revision"] == 4
    assert body["policy"]["strategy"] == "least_expected_work"
    assert body["changed"] == ["strategy: round_robin → least_expected_work", "b.weight: 5 → 2"]
    assert api.get("/fleets/llm/replicas/b").json()["weight"] == 2.0
    assert PolicyRevision.objects.get(number=4).summary.startswith("restored revision 1: ")
    assert Event.objects.filter(text="anna restored revision 1 of llm as revision 4").exists()


def test_restores_parameters_and_whatever_else_a_policy_says(api: Api, llm: str, redis_client: Any) -> None:
    first = {"parameters": {"kappa": 2.0}, "timeouts": {"total_s": 30}, "max_concurrency": 4}
    api.patch("/fleets/llm/policy", first)
    before = api.get("/fleets/llm/policy").json()["policy"]
    weight = {"weight": None}
    api.patch("/fleets/llm/replicas/b", weight)
    api.patch("/fleets/llm/policy", {"strategy": "round_robin", "timeouts": None, "max_concurrency": None})
    answer = api.post("/fleets/llm/revisions/2/restore")
    assert answer.json()["policy"] == before
    assert answer.json()["revision"] == 5
    assert api.get("/fleets/llm/replicas/b").json()["weight"] == 2.0
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert (snapshot.revision, snapshot.policy.parameters, snapshot.policy.timeouts.total_s) == (
        5,
        {"kappa": 2.0},
        30.0,
    )
    assert [replica.weight for replica in snapshot.replicas] == [1.0, 2.0]
    # A restore is a revision: it can be undone like any other.
    assert api.post("/fleets/llm/revisions/4/restore").json()["policy"]["strategy"] == "round_robin"


def test_what_a_restore_would_change_is_said_before(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    api.patch("/fleets/llm/replicas/b", {"weight": 5.0})
    seen = api.get("/fleets/llm/revisions/1").json()
    assert (seen["number"], seen["refused"]) == (1, "")
    assert seen["would_change"] == ["strategy: round_robin → least_expected_work", "b.weight: 5 → 2"]
    assert PolicyRevision.objects.count() == 3
    etag = api.get("/fleets/llm/revisions/1")["ETag"]
    assert (
        api.post("/fleets/llm/revisions/1/restore", if_match=etag).json()["changed"] == seen["would_change"]
    )
    assert api.get("/fleets/llm/revisions/1").json()["would_change"] == []
    assert api.post("/fleets/llm/revisions/2/restore", if_match=etag).status_code == 412
    assert api.get("/fleets/llm/revisions/9").status_code == 404


def test_restoring_what_already_is_changes_nothing(api: Api, llm: str) -> None:
    assert api.post("/fleets/llm/revisions/1/restore").json()["changed"] == []
    assert PolicyRevision.objects.count() == 1


def test_replicas_that_the_revision_did_not_know_keep_their_weight(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
    api.post("/fleets/llm/replicas", {"name": "c", "url": "http://127.0.0.1:9103", "weight": 7})
    api.delete("/fleets/llm/replicas/a")
    assert api.post("/fleets/llm/revisions/1/restore").status_code == 200
    assert api.get("/fleets/llm/replicas/c").json()["weight"] == 7.0


def test_unknown_revision(api: Api, llm: str) -> None:
    answer = api.post("/fleets/llm/revisions/9/restore")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "Fleet llm has no revision 9; its newest is 1."


def test_a_strategy_that_is_gone_cannot_be_restored(api: Api, llm: str) -> None:
    PolicyRevision.objects.filter(number=1).update(policy={"strategy": "once_known"})
    answer = api.post("/fleets/llm/revisions/1/restore")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/strategy"
    seen = api.get("/fleets/llm/revisions/1").json()
    assert seen["would_change"] is None
    assert seen["refused"] == answer.json()["detail"]
