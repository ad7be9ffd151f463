"""``/fleets/{fleet}/replicas`` and ``/fleets/{fleet}/replicas/{replica}``."""

import time
from collections.abc import Callable
from datetime import timedelta
from math import ceil
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from controlplane.models import Event, Fleet, PolicyRevision, ReplicaHealth
from controlplane.probes import keys, schedule, targets, tasks
from controlplane.services import health
from controlplane.telemetry.frames import (
    OVERVIEW_KEY,
    AffinityLive,
    DrainedAt,
    FleetFrame,
    FleetSummary,
    LearnedLive,
    MovingLive,
    Point,
    QueueLive,
    ReplicaLive,
    StayingLive,
    fleet_key,
)
from routing.contract import redis_keys
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api
from tests.ports import free_port


def published(redis_client: Any, name: str) -> Any:
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    return next((replica for replica in snapshot.replicas if replica.name == name), None)


def store_overview(redis_client: Any) -> None:
    """What says that a conductor works."""
    redis_client.set(OVERVIEW_KEY, msgspec.json.encode({"at": time.time()}))


def store_frame(redis_client: Any, *, age_s: float = 0.0, workers_current: int = 1, **replica: Any) -> None:
    """A frame of fleet llm as the conductor stores it, with one replica."""
    values: dict[str, Any] = {
        "name": "a",
        "eligible": True,
        "state": "ready",
        "why": "",
        "admin_state": "active",
        "health": "ready",
        "ejected": False,
        "weight": 1.0,
        "rps": 1.0,
        "share_percent": 100.0,
        "in_flight": 3,
        "max_concurrency": None,
        "p50_s": None,
        "p99_s": None,
        "errors_per_s": 0.0,
        "seconds_per_work": None,
        **replica,
    }
    at = time.time() - age_s
    point = Point(at=at, rps=1.0, p50_s=None, p99_s=None, errors_per_s=0.0, in_flight=3)
    summary = FleetSummary(
        name="llm",
        protocol="openai",
        aliases=[],
        adapters=[],
        strategy="round_robin",
        revision=1,
        rps=1.0,
        p50_s=None,
        p99_s=None,
        error_percent=0.0,
        in_flight=3,
        queue=QueueLive(),
        affinity=AffinityLive(),
        capacity=None,
        replicas=1,
        eligible=1,
        taking=1,
        cold=None,
        states={"ready": 1},
    )
    frame = FleetFrame(
        sequence=1,
        at=at,
        table="1:1",
        summary=summary,
        point=point,
        replicas=[ReplicaLive(**values)],
        workers=1,
        workers_current=workers_current,
    )
    redis_client.set(fleet_key("llm"), msgspec.json.encode(frame))


def test_a_replica_says_how_fast_it_is_as_proxies_have_learned_it(
    api: Api, llm: str, redis_client: Any
) -> None:
    store_overview(redis_client)
    learned = LearnedLive(times_usual=1.30004, error=1.12, request_s=0.42, requests=61.04, is_known=True)
    store_frame(redis_client, learned=learned)
    assert api.get("/fleets/llm/replicas/a").json()["learned"] == {
        "times_usual": 1.3,
        "error": 1.12,
        "request_s": 0.42,
        "requests": 61.0,
        "is_known": True,
    }
    store_frame(redis_client)
    assert api.get("/fleets/llm/replicas/a").json()["learned"] is None


def test_a_replica_that_starts_says_when_it_is_expected(api: Api, llm: str, redis_client: Any) -> None:
    """After as long as its last start took, else its fleet's others in the middle; nobody knows: nothing."""
    store_overview(redis_client)

    def health(name: str) -> tuple[float | None, float | None, str]:
        body = api.get(f"/fleets/llm/replicas/{name}").json()
        left_s = body["health"]["expected_in_s"]
        return body["health"]["startup_s"], left_s and 5 * ceil(left_s / 5), body["why"]

    def begun(name: str, seconds: float, **changes: object) -> None:
        since = timezone.now() - timedelta(seconds=seconds)
        ReplicaHealth.objects.filter(replica__name=name).update(since=since, **changes)

    begun("a", 25)
    assert health("a") == (None, None, "health is checking: not probed yet")
    begun("b", 3600, state="ready", startup_s=60.0)
    assert health("b") == (60.0, None, "admin state, health and ejection all allow it")
    assert health("a") == (None, 35, "health is checking: not probed yet; expected in about 35 s")
    begun("a", 25, state="down", reason="connection refused", startup_s=28.0)
    assert health("a") == (28.0, 5, "health is down: connection refused; expected in a few seconds")
    begun("a", 90)
    assert health("a")[1:] == (
        0,
        "health is down: connection refused; taking longer than the last start (28 s)",
    )
    begun("a", 10, starting=False)
    assert health("a")[1:] == (None, "health is down: connection refused")


def test_register(api: Api, llm: str, redis_client: Any) -> None:
    store_overview(redis_client)
    answer = api.post("/fleets/llm/replicas", {"name": "c", "url": "HTTP://Host:80/base/"})
    assert answer.status_code == 201
    body = answer.json()
    assert body["url"] == "http://host:80/base"
    assert body["health"] | {"state": "checking", "has_passed": False} == body["health"]
    assert body["eligible"] is False
    assert body["why"] == "health is checking: not probed yet"
    assert body["table_version"] == "1:2"
    assert published(redis_client, "c").has_passed is False
    event = Event.objects.get(replica__name="c")
    assert event.text == "anna registered replica c at http://host:80/base"


def test_adapters_are_set_published_and_unset(api: Api, llm: str, redis_client: Any) -> None:
    api.patch("/fleets/llm", {"adapters": ["sql", "support"]})
    assert api.get("/fleets/llm/replicas/a").json()["adapters"] is None
    body = api.patch("/fleets/llm/replicas/a", {"adapters": ["sql"]}).json()
    assert (body["adapters"], body["changed"]) == (["sql"], ["a.adapters: not set → sql"])
    assert [published(redis_client, name).adapters for name in ("a", "b")] == [["sql"], None]
    made = api.post("/fleets/llm/replicas?trial=no", {"name": "c", "url": "http://h", "adapters": []})
    assert made.json()["adapters"] == published(redis_client, "c").adapters == []
    body = api.patch("/fleets/llm/replicas/a", {"adapters": None}).json()
    assert body["adapters"] is published(redis_client, "a").adapters is None


def test_adapters_are_among_those_of_the_fleet(api: Api, llm: str) -> None:
    api.patch("/fleets/llm", {"adapters": ["sql", "support"]})
    answer = api.patch("/fleets/llm/replicas/a", {"adapters": ["sql", "suport", "sql"]})
    assert [(error["pointer"], error["detail"]) for error in answer.json()["errors"]] == [
        ("/adapters/1", 'the fleet has no adapter "suport"; did you mean "support"?'),
        ("/adapters/2", 'the adapter "sql" is listed twice: remove one'),
    ]
    new = {"name": "c", "url": "http://h", "adapters": ["x"]}
    (error,) = api.post("/fleets/llm/replicas?trial=no", new).json()["errors"]
    assert error["pointer"] == "/adapters/0"
    fleet = {"name": "other", "protocol": "openai", "adapters": ["y"], "replicas": [new]}
    (error,) = api.post("/fleets?trial=no", fleet).json()["errors"]
    assert error["pointer"] == "/replicas/0/adapters/0"
    assert error["detail"].startswith('the fleet has no adapter "x"')


def test_a_fleet_keeps_the_adapters_that_its_replicas_list(api: Api, llm: str) -> None:
    api.patch("/fleets/llm", {"adapters": ["sql", "support"]})
    api.patch("/fleets/llm/replicas/b", {"adapters": ["support"]})
    for fewer in (["sql"], [], None):
        (error,) = api.patch("/fleets/llm", {"adapters": fewer}).json()["errors"]
        assert (error["pointer"], error["detail"]) == (
            "/adapters",
            'replica b lists the adapter "support": remove it there first, or keep it here',
        )
    assert api.patch("/fleets/llm", {"adapters": ["support"]}).json()["adapters"] == ["support"]
    api.patch("/fleets/llm/replicas/b", {"adapters": []})
    assert api.patch("/fleets/llm", {"adapters": []}).json()["adapters"] == []


def test_a_site_is_set_published_and_unset(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/replicas/a", {"site": "east"}).json()
    assert (body["site"], body["changed"]) == ("east", ["a.site: not set → east"])
    assert body["health"]["state"] == api.get("/fleets/llm/replicas/b").json()["health"]["state"]
    assert [published(redis_client, name).site for name in ("a", "b")] == ["east", ""]
    made = api.post("/fleets/llm/replicas?trial=no", {"name": "c", "url": "http://h", "site": "west"})
    assert made.json()["site"] == published(redis_client, "c").site == "west"
    for unset in (None, ""):
        api.patch("/fleets/llm/replicas/a", {"site": "east"})
        body = api.patch("/fleets/llm/replicas/a", {"site": unset}).json()
        assert body["site"] == published(redis_client, "a").site == ""


def test_a_version_is_set_published_and_unset(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/replicas/a", {"version": "Llama 3.1 (2024-07)"}).json()
    assert body["changed"] == ["a.version: not set → Llama 3.1 (2024-07)"]
    versions = [published(redis_client, name).version for name in ("a", "b")]
    assert versions == [body["version"], ""] == ["Llama 3.1 (2024-07)", ""]
    assert api.patch("/fleets/llm/replicas/a", {"version": None}).json()["version"] == ""
    assert published(redis_client, "a").version == ""
    refused = api.patch("/fleets/llm/replicas/a", {"version": 2})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/version")


def test_a_credential_is_kept_as_a_reference(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/replicas/a?trial=no", {"credential": "env:VLLM_KEY"}).json()
    assert body["credential"] == "env:VLLM_KEY"
    assert body["changed"] == ["a.credential: not set → env:VLLM_KEY"]
    assert body["health"]["has_passed"] is False
    assert published(redis_client, "a").credential == "env:VLLM_KEY"
    assert published(redis_client, "b").credential == ""
    assert "credential: not set → env:VLLM_KEY" in Event.objects.latest("pk").text
    assert api.get("/fleets/llm/replicas/a").json()["credential"] == "env:VLLM_KEY"
    made = api.post(
        "/fleets/llm/replicas?trial=no", {"name": "c", "url": "http://h", "credential": "file:/t"}
    )
    assert made.json()["credential"] == published(redis_client, "c").credential == "file:/t"
    assert (
        targets.load([published(redis_client, "c").uid])[published(redis_client, "c").uid].credential
        == "file:/t"
    )
    for unset in (None, ""):
        body = api.patch("/fleets/llm/replicas/c?trial=no", {"credential": unset}).json()
        assert body["credential"] == published(redis_client, "c").credential == ""

    refused = api.patch("/fleets/llm/replicas/a", {"credential": "hf_s3cret"})
    assert refused.status_code == 400
    assert "hf_s3cret" not in refused.content.decode()


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({"name": "c"}, "", 'a replica needs "url"'),
        ({"name": "c", "url": "ftp://h"}, "/url", "write http://host:port or https://host:port"),
        ({"name": "c", "url": "http://u:p@h"}, "/url", "no user name or password"),
        ({"name": "c", "url": "http://h", "weight": -1}, "/weight", "must be from 0 to 1000"),
        ({"name": "c", "url": "http://h", "weight": "2"}, "/weight", "remove the quotes"),
        ({"name": "c", "url": "http://h", "hardware": "gpu"}, "/hardware", "there are none yet"),
        ({"name": "c", "url": "http://h", "admin_state": "off"}, "/admin_state", "must be one of active"),
        (
            {"name": "c", "url": "http://h", "credential": "hf_x"},
            "/credential",
            "env:NAME or file:/whole/path, not the token",
        ),
        ({"name": "c", "url": "http://h", "move": True}, "/move", "set admin_state to draining"),
        ({"name": "c", "url": "http://h", "wieght": 1}, "/wieght", 'did you mean "weight"?'),
        ([], "", "The body must be a JSON object, not a list."),
    ],
)
def test_refused_and_explained(api: Api, llm: str, settings: Any, pointer: str, words: str) -> None:
    answer = api.post("/fleets/llm/replicas", settings)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_a_taken_name_is_a_conflict(api: Api, llm: str) -> None:
    assert api.post("/fleets/llm/replicas", {"name": "a", "url": "http://h"}).status_code == 409


def test_a_new_weight_is_a_revision_and_reaches_proxies(api: Api, llm: str, redis_client: Any) -> None:
    body = api.patch("/fleets/llm/replicas/a", {"weight": 2.5}).json()
    assert (body["weight"], body["effective_weight"], body["revision"]) == (2.5, 2.5, 2)
    assert body["changed"] == ["a.weight: not set → 2.5"]
    assert published(redis_client, "a").weight == 2.5
    revision = PolicyRevision.objects.get(number=2)
    assert (revision.weights, revision.actor) == ({"a": 2.5, "b": 2.0}, "anna")
    assert Event.objects.get(replica__name="a", kind="policy").text.endswith("(revision 2)")
    assert (
        str(decode_snapshot(redis_client.hget("sy:fleet:llm", "body")).version) == body["table_version"][2:]
    )


def test_null_gives_the_weight_back_to_the_hardware_class(api: Api, llm: str, redis_client: Any) -> None:
    api.post("/hardware-classes", {"name": "h100", "weight": 4})
    api.patch("/fleets/llm/replicas/b", {"hardware": "h100"})
    assert published(redis_client, "b").weight == 2.0
    body = api.patch("/fleets/llm/replicas/b", {"weight": None}).json()
    assert (body["weight"], body["effective_weight"]) == (None, 4.0)
    assert published(redis_client, "b").weight == 4.0


def test_drain_says_what_is_left_in_flight(api: Api, llm: str, redis_client: Any) -> None:
    health.record_transition(Fleet.objects.get().replicas.get(name="a").pk, "checking", "ready", "200", True)
    store_frame(redis_client)
    assert api.get("/fleets/llm/replicas/a").json()["eligible"] is True
    body = api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"}).json()
    assert body["admin_state"] == "draining"
    assert body["in_flight"] == 3
    assert (body["eligible"], body["why"]) == (False, "admin state is draining")
    assert body["revision"] == 1
    assert published(redis_client, "a").admin_state == "draining"
    event = Event.objects.get(state="draining")
    assert event.text == "anna began draining a"


def test_a_drain_may_move_streams_and_says_what_is_left(api: Api, llm: str, redis_client: Any) -> None:
    left = [StayingLive(reason="tools", requests=2, words="with calls of tools")]
    seen = MovingLive(movable=1, movable_prompt_tokens=30, staying=left, moved=0, moved_prompt_tokens=0)
    store_frame(redis_client, moving=seen)
    body = api.patch("/fleets/llm/replicas/a", {"admin_state": "draining", "move": True}).json()
    assert body["changed"] == ["a.admin_state: active → draining", "a.move: false → true"]
    assert body["move"] is True
    assert body["moving"]["staying"] == [{"reason": "tools", "requests": 2, "words": "with calls of tools"}]
    assert published(redis_client, "a").is_vacated
    assert Event.objects.get(state="draining").text == "anna began draining a, and moves its streams"
    api.patch("/fleets/llm/replicas/a", {"move": False})
    assert published(redis_client, "a").admin_state == "draining"
    assert not published(redis_client, "a").is_vacated
    text = "anna stopped moving the streams of a, which is draining"
    assert Event.objects.order_by("id").last().text == text  # type: ignore[union-attr]
    api.patch("/fleets/llm/replicas/a", {"move": True})
    undone = api.patch("/fleets/llm/replicas/a", {"admin_state": "active"}).json()
    assert (undone["admin_state"], undone["move"]) == ("active", False)
    # The next drain moves nothing, unless it says so.
    assert api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"}).json()["move"] is False


@pytest.mark.parametrize("change", [{"move": True}, {"move": True, "admin_state": "active"}])
def test_nothing_is_moved_from_an_active_replica(api: Api, llm: str, change: dict[str, Any]) -> None:
    answer = api.patch("/fleets/llm/replicas/a", change)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/move"]
    assert "set admin_state to draining" in answer.json()["detail"]


def test_when_it_is_safe_to_stop(api: Api, llm: str, redis_client: Any) -> None:
    """Out at every worker, and nothing in flight there."""

    def safe() -> bool | None:
        return api.get("/fleets/llm/replicas/a").json()["safe_to_stop"]

    assert safe() is None
    store_frame(redis_client, in_flight=0)
    assert safe() is False
    api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"})
    # The frame is of before.
    assert safe() is False
    store_frame(redis_client, in_flight=2, admin_state="draining")
    assert safe() is False
    store_frame(redis_client, in_flight=0, admin_state="draining", workers_current=0)
    assert safe() is False
    store_frame(redis_client, in_flight=0, admin_state="draining")
    assert safe() is True
    api.patch("/fleets/llm/replicas/a", {"admin_state": "active"})
    assert safe() is False
    store_frame(redis_client, age_s=60, in_flight=0, admin_state="draining")
    assert safe() is None


def test_an_old_frame_says_nothing(api: Api, llm: str, redis_client: Any) -> None:
    store_frame(redis_client, age_s=60)
    body = api.get("/fleets/llm/replicas/a").json()
    assert (body["in_flight"], body["ejected"]) == (None, None)


def test_ejection_is_named_beside_the_other_facts(api: Api, llm: str, redis_client: Any) -> None:
    store_frame(redis_client, ejected=True, state="ejected", why="5 failures in a row")
    body = api.get("/fleets/llm/replicas/a").json()
    assert body["ejected"] is True
    assert body["why"] == "health is checking: not probed yet; ejected: 5 failures in a row"


def test_the_reason_of_an_ejection_is_named_where_another_state_is_shown(
    api: Api, llm: str, redis_client: Any
) -> None:
    why = "refused, for 5 s; ejected: nothing listens at 10.0.0.1:8000; probation in 3 s"
    store_frame(redis_client, ejected=True, state="down", why=why)
    body = api.get("/fleets/llm/replicas/a").json()
    assert body["why"].endswith("; ejected: nothing listens at 10.0.0.1:8000; probation in 3 s")


def test_an_eligible_replica_in_doubt_says_so(api: Api, llm: str, redis_client: Any) -> None:
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    store_frame(redis_client, doubt="in doubt: it was silent; a request tries it out")
    body = api.get("/fleets/llm/replicas/a").json()
    assert body["eligible"] is True
    assert body["why"] == "in doubt: it was silent; a request tries it out"


def test_a_drain_by_hand_is_told_with_its_proxy(api: Api, llm: str, redis_client: Any) -> None:
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    places = [DrainedAt(proxy="edge/7", expires_in_s=3119.6)]
    for everywhere in (False, True):
        store_frame(redis_client, drained_by_hand=places, drained_everywhere=everywhere)
        body = api.get("/fleets/llm/replicas/a").json()
        assert body["drained_by_hand"] == [{"proxy": "edge/7", "expires_in_s": 3120}]
        assert body["why"] == "emergency drain at proxy edge/7, for another 52 min"
        assert body["eligible"] is not everywhere
    assert api.get("/fleets/llm/replicas/b").json()["drained_by_hand"] == []


def test_a_credential_that_no_proxy_can_read_is_told(api: Api, llm: str, redis_client: Any) -> None:
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    for locked_out in (False, True):
        store_frame(redis_client, no_credential="credential env:K is not set (host h)", locked_out=locked_out)
        body = api.get("/fleets/llm/replicas/a").json()
        assert body["why"] == "credential env:K is not set (host h)"
        assert body["eligible"] is not locked_out


def test_unknown_hardware_is_told_beside_the_other_fields(api: Api, llm: str) -> None:
    wrong = {"weight": -1, "hardware": "h10"}
    made = api.post("/fleets/llm/replicas", {"name": "c", "url": "http://10.0.0.1:8000", **wrong})
    changed = api.patch("/fleets/llm/replicas/a", wrong)
    for answer in (made, changed):
        assert answer.status_code == 400
        pointers = sorted(error["pointer"] for error in answer.json()["errors"])
        assert pointers == ["/hardware", "/weight"]


def test_a_replica_that_is_checking_says_what_its_last_probe_saw(
    api: Api, make_fleet: Callable[..., str], redis_client: Any
) -> None:
    def reason() -> str:
        body = api.get("/fleets/late/replicas/a").json()
        assert body["health"]["state"] == "checking"
        assert body["why"] == f"health is checking: {body['health']['reason']}"
        assert api.get("/fleets/late/replicas").json()["results"][0]["health"] == body["health"]
        return str(body["health"]["reason"])

    url = f"http://127.0.0.1:{free_port()}"
    store_overview(redis_client)
    make_fleet("late", replicas=[{"name": "a", "url": url}])
    assert reason() == "not probed yet"
    schedule.reconcile(redis_client, targets.timings(), tasks.rng)
    schedule.make_due(redis_client, [uid.decode() for uid in redis_client.zrange(keys.DUE, 0, -1)])
    tasks.probe_batch([tuple(claim) for claim in schedule.claim(redis_client)])
    assert reason() == "connection refused"
    api.patch("/fleets/late/replicas/a?trial=no", {"url": "http://127.0.0.1:1"})
    assert reason() == "not probed yet: it has a new URL"


def test_another_url_is_another_instance(api: Api, llm: str, redis_client: Any) -> None:
    replica = Fleet.objects.get().replicas.get(name="a")
    health.record_transition(replica.pk, "checking", "ready", "200", True)
    assert published(redis_client, "a").health == "ready"
    body = api.patch("/fleets/llm/replicas/a", {"url": "http://127.0.0.1:9999"}).json()
    assert body["health"]["state"] == "checking"
    assert (published(redis_client, "a").health, published(redis_client, "a").has_passed) == (
        "checking",
        False,
    )


def test_probing_changes_no_etag(api: Api, llm: str) -> None:
    before = [api.get(path)["ETag"] for path in ("/fleets/llm", "/fleets/llm/replicas/a")]
    health.record_transition(Fleet.objects.get().replicas.get(name="a").pk, "checking", "ready", "200", True)
    assert [api.get(path)["ETag"] for path in ("/fleets/llm", "/fleets/llm/replicas/a")] == before


def test_if_match(api: Api, llm: str) -> None:
    etag = api.get("/fleets/llm/replicas/a")["ETag"]
    assert api.patch("/fleets/llm/replicas/a", {"weight": 3}, if_match=etag).status_code == 200
    assert api.patch("/fleets/llm/replicas/a", {"weight": 4}, if_match=etag).status_code == 412
    assert api.delete("/fleets/llm/replicas/a", if_match=etag).status_code == 412
    assert api.get("/fleets/llm/replicas/a").json()["weight"] == 3


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"name": "z"}, "/name", "cannot change"),
        ({"admin_state": None}, "/admin_state", "has no value"),
        ({"admin_state": "drainin"}, "/admin_state", 'did you mean "draining"?'),
        ({"memory_bytes": 5}, "/memory_bytes", 'without "accelerators"'),
        ({"weight": 1e9}, "/weight", "must be from 0 to 1000"),
    ],
)
def test_a_change_refused_and_explained(api: Api, llm: str, changes: Any, pointer: str, words: str) -> None:
    answer = api.patch("/fleets/llm/replicas/a", changes)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert words in answer.json()["errors"][0]["detail"]


def test_delete(api: Api, llm: str, redis_client: Any) -> None:
    assert api.delete("/fleets/llm/replicas/a").status_code == 204
    assert published(redis_client, "a") is None
    assert api.get("/fleets/llm/replicas/a").status_code == 404
    assert ReplicaHealth.objects.count() == 1
    assert Event.objects.filter(text="anna removed replica a (http://127.0.0.1:9101)").exists()


def test_list_and_search(api: Api, llm: str) -> None:
    page = api.get("/fleets/llm/replicas").json()
    assert [row["name"] for row in page["results"]] == ["a", "b"]
    assert api.get("/fleets/llm/replicas?search=9102").json()["count"] == 1


def test_unknown_replica(api: Api, llm: str) -> None:
    answer = api.get("/fleets/llm/replicas/zz")
    assert answer.status_code == 404
    assert answer.json()["detail"] == 'In fleet llm there is no replica "zz"; there are: a, b.'


def test_two_hundred_replicas_cost_as_many_queries_as_two(
    api: Api, make_fleet: Callable[..., str], django_assert_num_queries: Any
) -> None:
    make_fleet("big", replicas=[{"name": f"r{n}", "url": f"http://10.0.0.1:{n + 1}"} for n in range(200)])
    api.get("/fleets")  # the token's first use is written down
    with django_assert_num_queries(7):  # token, roles, fleet, count, page, accelerators, how long starts took
        assert len(api.get("/fleets/big/replicas?page_size=200").json()["results"]) == 200
    with django_assert_num_queries(6):  # token, roles, count, page, table state, health
        assert api.get("/fleets").json()["results"][0]["replicas"] == 200


def test_no_conductor_has_seen_it(api: Api, llm: str, redis_client: Any) -> None:
    store_frame(redis_client, age_s=60)
    (first, _) = api.get("/fleets/llm/replicas").json()["results"]
    assert first["why"].endswith("; live data is missing: no conductor has written any in the last 5 s")
    # One works, and has not come to this fleet yet: nothing is missing.
    store_overview(redis_client)
    (first, _) = api.get("/fleets/llm/replicas").json()["results"]
    assert "live data" not in first["why"]
