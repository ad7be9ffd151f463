"""Through all that ``make up`` starts: registered as a page says, probed by Celery, told by the API."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.proxy_process import until
from tests.servers.conftest import Servers
from tests.servers.running import START_LIMIT_S, MLServer
from tests.servers.test_mlserver import INFER, READY, REPOSITORY, request
from tests.servers.test_pages import PAGES, posted
from tests.system.stack import Stack, Traffic

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def server(servers: Servers) -> Iterator[MLServer]:
    """One more, whose model waits for its gate."""
    one = MLServer("mlserver-c", servers.mlserver[0].folder)
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def stack(server: MLServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    running = Stack(tmp_path_factory.mktemp("up"), "--no-examples", "--no-client")
    try:
        running.wait_until_up()
        yield running
    finally:
        running.stop()


def replica(stack: Stack) -> dict[str, Any]:
    found: dict[str, Any] = stack.api("GET", "/fleets/digits/replicas/a")
    return found


def live_text(stack: Stack) -> str:
    """The last frame, as pages get it."""
    return json.dumps(stack.api("GET", "/fleets/digits/live"))


def told(stack: Stack) -> list[str]:
    """What the events of the fleet say of health, newest first."""
    events = stack.api("GET", "/events?fleet=digits&page_size=50")["results"]
    return [event["text"] for event in events if event["kind"] == "health"]


def until_eligible(stack: Stack, *names: str) -> None:
    until(lambda: stack.eligible("digits") == set(names), f"the proxy may pick {names}", START_LIMIT_S)


def test_registered_while_it_loads_and_used_after_its_first_pass(stack: Stack, server: MLServer) -> None:
    server.until_it_says("/v2/health/live", "200")
    [(_, body)] = posted(PAGES["mlserver"])
    probe = {**body["probe"], "period_s": 0.5, "timeout_s": 3, "rise": 1, "fall": 2}
    stack.api("POST", "/fleets", {**body, "replicas": [], "probe": probe})
    trial = stack.api("POST", "/fleets/digits/replicas", {"name": "a", "url": server.url})["trial"]
    assert (trial["outcome"], trial["status"], trial["asked"]) == ("unready", 400, f"GET {READY}")
    assert 'its model "digits" is not ready - is it still loading' in trial["words"]

    row = replica(stack)
    assert (row["health"]["state"], row["eligible"]) == ("checking", False)
    assert row["why"].startswith("health is checking")
    until(lambda: "model not ready: 400" in live_text(stack), "the fleet's page says why", START_LIMIT_S)
    refused = stack.ask(INFER, request())
    assert (refused.status, refused.replica) == (503, "")
    assert refused.json["error"].startswith("1 replica of fleet digits: 1 checking; the model is loading")

    assert server.says(READY) == "400"
    server.gate.touch()
    until_eligible(stack, "a")
    answer = stack.ask(INFER, request())
    assert (answer.status, answer.replica, answer.json["outputs"][0]["data"]) == (200, "a", [0])
    assert told(stack) == ["a is ready, was checking: 200 OK"]


def test_an_unloaded_model_is_told_and_moves_the_traffic(
    stack: Stack, server: MLServer, servers: Servers
) -> None:
    other = servers.mlserver[0]
    other.until_it_says(READY, "200")
    stack.api("POST", "/fleets/digits/replicas", {"name": "b", "url": other.url})
    until_eligible(stack, "a", "b")
    with Traffic(stack, INFER, request()) as traffic:
        assert server.ask(f"{REPOSITORY}/unload", {}).status == 200
        until_eligible(stack, "b")
        until(lambda: replica(stack)["health"]["state"] == "unready", "the API says unready")
        assert "404 Model digits not found" in replica(stack)["why"]
        since = time.monotonic()
        traffic.wait_for(10, since)
        assert traffic.replicas(since) == {"b"}
        server.ask(f"{REPOSITORY}/load", {})
        until_eligible(stack, "a", "b")
    assert traffic.failures() == []
    newest = told(stack)[:3]
    assert newest[0].startswith("a is ready, was unready: 200 OK"), newest
    assert newest[1].startswith("a is unready, was ready: model not ready: 404 Model digits not found"), (
        newest
    )


def test_one_that_is_killed_is_told_and_comes_back(stack: Stack, server: MLServer) -> None:
    # By turns: a strategy that goes by speed may well leave a replica alone that has just failed.
    stack.api("PATCH", "/fleets/digits/policy", {"strategy": "round_robin"})
    with Traffic(stack, INFER, request()) as traffic:
        server.stop()
        until_eligible(stack, "b")
        until(lambda: replica(stack)["health"]["state"] == "down", "the API says down")
        assert "connection refused" in replica(stack)["why"]
        server.start()
        until_eligible(stack, "a", "b")
        since = time.monotonic()
        until(lambda: "a" in traffic.replicas(since), "a answers again")
    assert traffic.failures_after_kill() == []
