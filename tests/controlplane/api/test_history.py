"""Series of a fleet's measures."""

import time
from typing import Any

import pytest

from controlplane.models import Replica
from controlplane.telemetry import history
from controlplane.telemetry.frames import Point
from controlplane.telemetry.measures import Measures, of_key, of_replica, row
from controlplane.telemetry.minute_history import MinuteHistory
from routing.contract.sketch import bucket_of
from tests.controlplane.conftest import Api


def point(at: float, rps: float, p99_s: float | None = None) -> Point:
    return Point(
        at=at, rps=rps, p50_s=None, p99_s=p99_s, errors_per_s=0.0, in_flight=2, output_tokens_per_s=30.0
    )


def keep(redis: Any, *points: Point, coarse: Point | None = None) -> None:
    """``coarse``: kept with the last of the points."""
    pipeline = redis.pipeline()
    for each in points:
        history.append(pipeline, "llm", each, coarse if each is points[-1] else None)
    pipeline.execute()


def test_values_of_each_metric_with_their_times(api: Api, llm: str, redis_client: Any) -> None:
    now = time.time()
    keep(redis_client, point(now - 2, 5.0), point(now - 1, 6.0, 0.25))
    asked = api.get("/fleets/llm/history?metric=rps,p99_s,output_tokens_per_s")
    assert asked.json() == {
        "step_s": 1,
        "at": [now - 2, now - 1],
        "values": {"rps": [5.0, 6.0], "p99_s": [None, 0.25], "output_tokens_per_s": [30.0, 30.0]},
    }
    everything = api.get("/fleets/llm/history").json()["values"]
    assert everything.keys() == set(Point.__struct_fields__) - {"at", "error_reasons"}


def test_since_leaves_out_what_is_older_and_picks_the_step(api: Api, llm: str, redis_client: Any) -> None:
    now = time.time()
    keep(redis_client, point(now - 300, 1.0), point(now - 5, 2.0), coarse=point(now - 7200, 3.0))
    recent = api.get("/fleets/llm/history?metric=rps&since=1m").json()
    assert (recent["step_s"], recent["values"]["rps"]) == (1, [2.0])
    day = api.get("/fleets/llm/history?metric=rps&since=24h").json()
    assert (day["step_s"], day["values"]["rps"]) == (10, [3.0])
    assert api.get("/fleets/llm/history?metric=rps&since=1h&step=10").json()["at"] == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("metric=rpm", "metric must be one of rps, p50_s"),
        ("metric=rps,", "not ''"),
        ("step=5", "step must be 1, 10 or a multiple of 60 up to 86400 (seconds), not '5'"),
        ("since=7d&step=60", "a multiple of 300 up to 86400 (seconds) for more than 24 hours, not '60'"),
        ("since=soon", "since"),
        ("until=1h", "until"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(api: Api, llm: str, query: str, words: str) -> None:
    answer = api.get(f"/fleets/llm/history?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_a_fleet_that_is_not_there(api: Api) -> None:
    assert api.get("/fleets/nope/history").status_code == 404


def test_without_redis_there_is_no_history(api: Api, llm: str, redis_server: Any) -> None:
    redis_server.stop()
    assert api.get("/fleets/llm/history").status_code == 503


def minutes_of(redis: Any, subject: str, measures: Measures) -> float:
    """One minute of a replica or key; when it ended."""
    at = time.time() // 60 * 60 - 300
    pipeline = redis.pipeline()
    MinuteHistory(redis).append(pipeline, {subject: row(measures, at, 60)})
    pipeline.execute()
    return at


def test_history_of_a_replica(api: Api, llm: str, redis_client: Any) -> None:
    name = api.get("/fleets/llm/replicas").json()["results"][0]["name"]
    uid = Replica.objects.get(fleet__name=llm, name=name).uid
    at = minutes_of(redis_client, of_replica(str(uid)), Measures(requests=30, errors=6, reasons={"lost": 6}))
    asked = api.get(f"/fleets/llm/replicas/{name}/history?metric=rps,p99_s,error_reasons").json()
    assert asked == {
        "step_s": 60,
        "at": [at],
        "values": {"rps": [0.5], "p99_s": [None], "error_reasons.lost": [0.1]},
    }
    assert api.get("/fleets/llm/replicas/nobody/history").status_code == 404
    wrong = api.get(f"/fleets/llm/replicas/{name}/history?metric=waiting")
    assert "metric must be one of rps" in wrong.json()["detail"]
    wrong = api.get(f"/fleets/llm/replicas/{name}/history?step=10")
    assert wrong.json()["detail"] == "step must be a multiple of 60 up to 86400 (seconds), not '10'."


def test_history_of_a_client_key(api: Api, llm: str, redis_client: Any) -> None:
    key = api.post("/client-keys", {"name": "website", "fleets": [llm]}).json()["id"]
    reasons = {"max_concurrency": 30, "timeout": 6, "replica_500": 3}
    used = Measures(requests=120, errors=30, output_tokens=600, reasons=reasons)
    used.sketch("latency", {bucket_of(0.1): 90, bucket_of(2.0): 10})
    used.sketch("first_token", {bucket_of(0.05): 10})
    at = minutes_of(redis_client, of_key(str(key)), used)
    assert api.get(f"/client-keys/{key}/history").json() == {
        "step_s": 60,
        "at": [at],
        "values": {
            "rps": [2.0],
            "limited_per_s": [0.5],
            "tokens_per_s": [10.0],
            "limits.max_concurrency": [0.5],
            "errors_per_s": [0.15],
            "error_reasons.replica_500": [0.05],
            "error_reasons.timeout": [0.1],
            "p50_s": [pytest.approx(0.1, rel=0.03)],
            "p95_s": [pytest.approx(2.0, rel=0.03)],
            "p99_s": [pytest.approx(2.0, rel=0.03)],
            "first_token_p50_s": [pytest.approx(0.05, rel=0.03)],
            "first_token_p95_s": [pytest.approx(0.05, rel=0.03)],
            "first_token_p99_s": [pytest.approx(0.05, rel=0.03)],
        },
    }
    asked = api.get(f"/client-keys/{key}/history?metric=errors_per_s,p99_s&step=120").json()
    assert asked["values"]["errors_per_s"] == [0.075]
    assert asked["values"]["p99_s"] == [pytest.approx(2.0, rel=0.03)]
    minutes_of(redis_client, of_key(str(key)), Measures(requests=120))
    asked = api.get(f"/client-keys/{key}/history?metric=errors_per_s,limits").json()
    assert asked["values"] == {"errors_per_s": [0.15, 0.0], "limits.max_concurrency": [0.5, 0.0]}
    assert api.get("/client-keys/4711/history").status_code == 404
