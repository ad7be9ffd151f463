"""MLServer behind a proxy: loading, ready, a model unloaded while the server is ready, stopped under load."""

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy_process import until
from tests.servers.conftest import Servers
from tests.servers.running import PROBE, Front, MLServer, b_answers_until_a_is_back
from tests.system.stack import Traffic

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]

INFER = "/v2/models/digits/infer"
READY = "/v2/models/digits/ready"
REPOSITORY = "/v2/repository/models/digits"
ZERO = [
    0,
    0,
    5,
    13,
    9,
    1,
    0,
    0,
    0,
    0,
    13,
    15,
    10,
    15,
    5,
    0,
    0,
    3,
    15,
    2,
    0,
    11,
    8,
    0,
    0,
    4,
    12,
    0,
    0,
    8,
    8,
    0,
]
ZERO += [
    0,
    5,
    8,
    0,
    0,
    9,
    8,
    0,
    0,
    4,
    11,
    0,
    1,
    12,
    7,
    0,
    0,
    2,
    14,
    5,
    10,
    12,
    0,
    0,
    0,
    0,
    6,
    13,
    10,
    0,
    0,
    0,
]
"""A handwritten 0, first of scikit-learn's digits."""


def request() -> dict[str, Any]:
    return {"inputs": [{"name": "pixels", "shape": [1, 64], "datatype": "FP64", "data": ZERO}]}


@pytest.fixture(scope="module")
def pair(servers: Servers) -> tuple[MLServer, MLServer]:
    return servers.mlserver


@pytest.fixture(scope="module")
def front(pair: tuple[MLServer, MLServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    a, b = pair
    policy = {"strategy": "round_robin", "slow_start_s": 0, "ejection": {"base_s": 0.5}}
    both = {
        "name": "digits",
        "protocol": "open-inference",
        "policy": policy,
        "probe": {"preset": "mlserver", **PROBE},
        "replicas": [{"name": "a", "url": a.url}, {"name": "b", "url": b.url}],
    }
    late = {**both, "name": "late", "served_model": "digits", "replicas": [{"name": "b", "url": b.url}]}
    running = Front(tmp_path_factory.mktemp("mlserver"), [both, late])
    yield running
    running.proxy.stop()


def test_a_model_that_loads_gets_no_request(front: Front, pair: tuple[MLServer, MLServer]) -> None:
    a, b = pair
    a.until_it_says(READY, "200")
    b.until_it_says("/v2/health/live", "200")
    front.until_health("digits", "a", "ready")
    assert b.says(READY) == "400"
    assert b.ask(INFER, request()).json == {"error": "Model digits is not ready yet."}
    row = front.until_health("digits", "b", "checking")
    assert not row["eligible"]

    answers = [front.ask(INFER, request()) for _ in range(6)]
    assert {(answer.status, answer.replica) for answer in answers} == {(200, "a")}
    assert answers[0].json["outputs"][0]["data"] == [0]
    refused = front.ask("/v2/models/late/infer", request())
    assert (refused.status, refused.replica) == (503, "")
    assert "checking" in refused.json["error"]


def test_the_first_pass_lets_it_in(front: Front, pair: tuple[MLServer, MLServer]) -> None:
    b = pair[1]
    assert b.says(READY) == "400"
    b.gate.touch()
    front.until_health("digits", "b", "ready")
    front.until_health("late", "b", "ready")
    assert "replica b of fleet digits: checking → ready: 200 OK" in front.proxy.log
    answer = front.ask("/v2/models/late/infer", request())
    assert (answer.status, answer.replica, answer.json["outputs"][0]["data"]) == (200, "b", [0])
    assert {front.ask(INFER, request()).replica for _ in range(4)} == {"a", "b"}


def test_an_unloaded_model_costs_no_error_and_comes_back(
    front: Front, pair: tuple[MLServer, MLServer]
) -> None:
    b = pair[1]
    with Traffic(front, INFER, request()) as traffic:  # type: ignore[arg-type]
        until(lambda: traffic.replicas() == {"a", "b"}, "both answer")
        assert b.ask(f"{REPOSITORY}/unload", {}).status == 200
        assert b.says("/v2/health/ready") == "200"
        assert b.says(READY) == '404 {"error":"Model digits not found"}'
        assert not front.until_health("digits", "b", "unready")["eligible"]
        since = time.monotonic()
        traffic.wait_for(20, since)
        assert traffic.replicas(since) == {"a"}

        b.ask(f"{REPOSITORY}/load", {})
        front.until_health("digits", "b", "ready")
        since = time.monotonic()
        until(lambda: "b" in traffic.replicas(since), "b answers again")
    assert traffic.failures() == []
    words = "ready → unready: model not ready: 404 Model digits not found"
    assert words in front.proxy.log


def test_stopped_under_load_and_started_again(front: Front, pair: tuple[MLServer, MLServer]) -> None:
    a = pair[0]
    with Traffic(front, INFER, request()) as traffic:  # type: ignore[arg-type]
        until(lambda: traffic.replicas() == {"a", "b"}, "both answer")
        stopped = time.monotonic()
        a.stop(signal.SIGTERM)
        b_answers_until_a_is_back(front, traffic, "digits", a)
    # MLServer ends what it has begun before it goes; what was lost on the way was sent to b.
    assert traffic.failures() == []
    assert traffic.since(stopped)
    assert "ready → down: connection refused" in front.proxy.log
