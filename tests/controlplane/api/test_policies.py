"""``/fleets/{fleet}/policy``: the change that live traffic follows."""

import threading
from typing import Any

import pytest

from controlplane.models import AuditEntry, Event, Fleet, PolicyRevision
from routing.contract import redis_keys
from routing.contract.policy import Queue
from routing.contract.table import decode_snapshot
from tests.controlplane import workers
from tests.controlplane.conftest import Api

NO_OBJECTIVE = {
    "latency_s": None,
    "first_token_s": None,
    "percentile": 99.0,
    "availability_percent": None,
    "window_days": 30.0,
}


def test_shows_every_value_in_force_and_what_was_set(api: Api, llm: str) -> None:
    answer = api.get("/fleets/llm/policy")
    assert answer.status_code == 200
    assert answer["ETag"] == '"1"'
    body = answer.json()
    assert body["fleet"] == "llm"
    assert body["revision"] == 1
    assert body["set"] == {}
    assert body["policy"]["strategy"] == "least_expected_work"
    assert body["policy"]["timeouts"]["total_s"] == 600.0
    assert body["policy"]["queue"] == {
        "size": 256,
        "timeout_s": 10.0,
        "cold": "refuse",
        "cold_timeout_s": 300.0,
        "at": "proxy",
    }
    assert body["policy"]["locality"] == {"prefer": "site", "spill_above": 0.8}
    assert body["policy"]["slo"] == NO_OBJECTIVE


def test_an_objective_is_set_and_goes_to_the_proxies(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/policy", {"slo": {"first_token_s": 0.3}}).json()
    assert body["policy"]["slo"] == {**NO_OBJECTIVE, "first_token_s": 0.3}
    assert body["set"] == {"slo": {"first_token_s": 0.3}}
    refused = api.patch("/fleets/llm/policy", {"slo": {"first_token_s": 0}}).json()
    assert "must be from 0.001 to 3600 seconds, not 0" in str(refused)
    body = api.patch("/fleets/llm/policy", {"slo": {"first_token_s": None}}).json()
    assert body["policy"]["slo"] == NO_OBJECTIVE


def test_the_limit_of_first_tokens_is_a_number_or_a_word(api: Api, llm: str, redis_client: Any) -> None:
    assert api.get("/fleets/llm/policy").json()["policy"]["first_token_limit_s"] == "off"
    for given, kept in ((2, 2.0), ("auto", "auto"), (0.5, 0.5)):
        body = api.patch("/fleets/llm/policy", {"first_token_limit_s": given}).json()
        assert body["policy"]["first_token_limit_s"] == kept
        snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
        assert snapshot.policy.first_token_limit_s == kept
    assert body["changed"] == ["first_token_limit_s: auto → 0.5"]
    for wrong, words in (
        ("autp", 'must be a number or auto or off, not the text "autp"; did you mean "auto"?'),
        (0.01, "must be from 0.1 to 3600 seconds, not 0.01"),
        ("2", 'must be a number, not the text "2": remove the quotes'),
        ("1e400", 'must be a number or auto or off, not the text "1e400"'),
        (True, "must be a number or auto or off, not true"),
    ):
        refused = api.patch("/fleets/llm/policy", {"first_token_limit_s": wrong}).json()
        assert refused["errors"] == [{"pointer": "/first_token_limit_s", "detail": words}]
    body = api.patch("/fleets/llm/policy", {"first_token_limit_s": None, "plain_limit_factor": 4}).json()
    assert body["set"] == {"plain_limit_factor": 4.0}


def test_locality_is_changed_field_by_field(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/policy", {"locality": {"spill_above": 0.5}}).json()
    assert body["policy"]["locality"] == {"prefer": "site", "spill_above": 0.5}
    assert body["set"] == {"locality": {"spill_above": 0.5}}
    assert body["changed"] == ["locality.spill_above: 0.8 → 0.5"]
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert snapshot.policy.locality.spill_above == 0.5
    refused = api.patch("/fleets/llm/policy", {"locality": {"spill_above": 1.5}})
    assert refused.json()["errors"][0]["pointer"] == "/locality/spill_above"


def test_change_is_saved_revised_audited_told_and_published(api: Api, llm: str, redis_client: Any) -> None:
    answer = api.patch("/fleets/llm/policy", {"strategy": "round_robin", "timeouts": {"total_s": 30}})
    assert answer.status_code == 200
    body = answer.json()
    assert body["policy"]["strategy"] == "round_robin"
    assert body["policy"]["timeouts"] | {"connect_s": 1.0, "total_s": 30.0} == body["policy"]["timeouts"]
    assert body["set"] == {"strategy": "round_robin", "timeouts": {"total_s": 30.0}}
    assert body["changed"] == ["strategy: least_expected_work → round_robin", "timeouts.total_s: 600 → 30"]
    assert body["revision"] == 2
    assert body["table_version"] == "1:2"
    assert body["published"] is True
    assert body["workers"] == {
        "live": 0,
        "applied": 0,
        "refused": 0,
        "waited_ms": body["workers"]["waited_ms"],
    }
    assert answer["ETag"] == '"2"'

    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert (snapshot.version, snapshot.revision) == (2, 2)
    assert snapshot.policy.strategy == "round_robin"
    assert PolicyRevision.objects.get(fleet__name="llm", number=2).actor == "anna"
    audit = AuditEntry.objects.get(verb="policies.change")
    assert (audit.actor, audit.target, audit.before) == ("anna", "llm", {})
    event = Event.objects.get(kind="policy")
    assert event.text.startswith(
        "anna changed the policy of llm: strategy: least_expected_work → round_robin"
    )


def test_the_announcement_has_the_fleets_name(api: Api, llm: str, redis_client: Any) -> None:
    with redis_client.pubsub() as changes:
        changes.subscribe(redis_keys.CHANGES_CHANNEL)
        assert changes.get_message(timeout=5)["type"] == "subscribe"
        api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
        assert changes.get_message(timeout=5)["data"] == b"llm"
        assert changes.get_message(timeout=0.05) is None


def test_waits_until_every_live_worker_has_it(api: Api, llm: str, redis_client: Any) -> None:
    workers.alive(redis_client, "host/1/0", "host/1/1")
    workers.silent_for(redis_client, "gone/1/0", 60)
    changes = redis_client.pubsub()
    changes.subscribe(redis_keys.CHANGES_CHANNEL)
    changes.get_message(timeout=5)

    def acknowledge() -> None:
        assert changes.get_message(timeout=10)["data"] == b"llm"
        workers.acknowledge(redis_client, "llm", "host/1/0", "1:2")
        workers.acknowledge(redis_client, "llm", "host/1/1", "1:2")

    thread = threading.Thread(target=acknowledge)
    thread.start()
    body = api.patch("/fleets/llm/policy", {"strategy": "round_robin"}).json()
    thread.join()
    changes.close()
    assert body["workers"]["live"] == 2
    assert body["workers"]["applied"] == 2
    assert body["workers"]["waited_ms"] < 250


def test_a_worker_that_lags_is_counted_as_live_only(api: Api, llm: str, redis_client: Any) -> None:
    workers.alive(redis_client, "host/1/0", "host/1/1")
    workers.acknowledge(redis_client, "llm", "host/1/0", "1:1")
    workers.acknowledge(redis_client, "llm", "host/1/1", "1:1", refused="strategy is unknown here")
    counts = api.patch("/fleets/llm/policy", {"strategy": "round_robin"}).json()["workers"]
    assert (counts["live"], counts["applied"], counts["refused"]) == (2, 0, 1)
    assert counts["waited_ms"] > 200


def test_asking_for_what_already_is_writes_nothing(api: Api, llm: str) -> None:
    body = api.patch("/fleets/llm/policy", {"strategy": "least_expected_work", "slow_start_s": 30}).json()
    assert body["changed"] == []
    assert (body["revision"], body["table_version"], body["set"]) == (1, "1:1", {})
    assert PolicyRevision.objects.filter(fleet__name="llm").count() == 1


def test_null_goes_back_to_the_default(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"slow_start_s": 5, "max_concurrency": 8, "timeouts": {"idle_s": 7}})
    body = api.patch(
        "/fleets/llm/policy", {"slow_start_s": None, "max_concurrency": None, "timeouts": {"idle_s": None}}
    ).json()
    assert body["set"] == {}
    assert body["changed"] == [
        "max_concurrency: 8 → not set",
        "timeouts.idle_s: 7 → 60",
        "slow_start_s: 5 → 30",
    ]


def test_how_long_a_queue_is_can_be_changed_and_taken_back(api: Api, llm: str, redis_client: Any) -> None:
    def published() -> Queue:
        return decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body")).policy.queue

    body = api.patch("/fleets/llm/policy", {"queue": {"size": 4, "cold": "hold"}}).json()
    assert body["changed"] == ["queue.size: 256 → 4", "queue.cold: refuse → hold"]
    assert body["set"] == {"queue": {"size": 4, "cold": "hold"}}
    assert published() == Queue(size=4, cold="hold")
    body = api.patch("/fleets/llm/policy", {"queue": {"timeout_s": 2}}).json()
    assert body["changed"] == ["queue.timeout_s: 10 → 2"]
    body = api.post("/fleets/llm/revisions/1/restore").json()
    assert body["changed"] == ["queue.size: 4 → 256", "queue.timeout_s: 2 → 10", "queue.cold: hold → refuse"]
    assert published() == Queue()


def test_a_new_strategy_forgets_the_old_ones_parameters(api: Api, llm: str) -> None:
    api.patch("/fleets/llm/policy", {"parameters": {"kappa": 5.0}})
    body = api.patch("/fleets/llm/policy", {"strategy": "round_robin"}).json()
    assert body["set"] == {"strategy": "round_robin"}


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"stratgy": "round_robin"}, "/stratgy", 'unknown field "stratgy"; did you mean "strategy"?'),
        ({"strategy": "round-robin"}, "/strategy", 'did you mean "round_robin"?'),
        ({"strategy": 3}, "/strategy", "must be text, not the number 3"),
        ({"timeouts": {"total_s": -1}}, "/timeouts/total_s", "must be from 0.001 to 86400 seconds, not -1"),
        ({"timeouts": {"total": 1}}, "/timeouts/total", 'did you mean "total_s"?'),
        ({"timeouts": 3}, "/timeouts", "must be timeouts as a group of fields"),
        ({"parameters": {"kappa": 99}}, "/parameters/kappa", "between 0 and 20"),
        ({"parameters": {"kapa": 1}}, "/parameters/kapa", "has no parameter 'kapa'"),
        ({"slo": {"latency_s": 700}}, "/slo/latency_s", "must be below timeouts.total_s, which is 600"),
        ({"slo": {"latency_s": 2, "first_token_s": 2}}, "/slo/first_token_s", "must be below latency_s"),
        ({"slo": {"availability_percent": 100}}, "/slo/availability_percent", "from 50 to 99.999 percent"),
        ({"slo": {"percentile": 95}}, "/slo/percentile", "set one of them, too"),
        ({"slo": {"window_days": 7}}, "/slo/window_days", "there is no objective to hold so long"),
        ({"queue": {"size": 1.5}}, "/queue/size", "must be a whole number, not 1.5"),
        ({"queue": {"cold": "wait"}}, "/queue/cold", "must be one of refuse, hold"),
        ({"nothing_like_it": None}, "/nothing_like_it", "unknown field"),
        ({"max_concurrency": True}, "/max_concurrency", "must be a whole number, not true"),
        (
            {"retries": {"replay_safe": "sometimes"}},
            "/retries/replay_safe",
            "must be one of auto, always, never",
        ),
        (
            {"retries": {"statuses": [503, 404]}},
            "/retries/statuses/1",
            "must be 429 or 500 to 599, not 404",
        ),
    ],
)
def test_refused_and_explained(api: Api, llm: str, changes: Any, pointer: str, words: str) -> None:
    answer = api.patch("/fleets/llm/policy", changes)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert words in problem["errors"][0]["detail"]
    assert Fleet.objects.get(name="llm").edit_version == 1


def test_if_match(api: Api, llm: str) -> None:
    etag = api.get("/fleets/llm/policy")["ETag"]
    assert api.patch("/fleets/llm/policy", {"slow_start_s": 1}, if_match=etag).status_code == 200
    stale = api.patch("/fleets/llm/policy", {"slow_start_s": 2}, if_match=etag)
    assert stale.status_code == 412
    assert "read it again" in stale.json()["detail"]
    assert api.patch("/fleets/llm/policy", {"slow_start_s": 2}, if_match="*").status_code == 200
    assert api.patch("/fleets/llm/policy", {"slow_start_s": 3}, if_match='W/"1"').status_code == 412
    assert api.patch("/fleets/llm/policy", {"slow_start_s": 3}, if_match="nonsense").status_code == 400


def test_a_write_succeeds_while_redis_is_away(api: Api, llm: str, redis_server: Any) -> None:
    redis_server.stop()
    body = api.patch("/fleets/llm/policy", {"strategy": "round_robin"}).json()
    assert body["published"] is False
    assert body["revision"] == 2
    assert body["workers"]["live"] == 0
    assert Fleet.objects.get(name="llm").policy == {"strategy": "round_robin"}
