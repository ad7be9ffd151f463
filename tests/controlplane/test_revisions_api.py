"""``/fleets/{fleet}/revisions``: what was, and going back to it."""

from controlplane.models import Event, PolicyRevision
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
