"""An operator's changes reach live traffic within a second and cost no request."""

import re
import stat
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.browser.reach import reaches_all
from tests.proxy_process import until
from tests.system.stack import Stack, Traffic, exchange, one_digit

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

EFFECT_S = 1.0


@pytest.fixture(autouse=True)
def all_ready(stack: Stack) -> None:
    until(lambda: len(stack.eligible("digits")) == 3, "three classifiers", 90)


@pytest.fixture
def policy_revision(stack: Stack) -> Iterator[int]:
    """Number of the revision in force, which is gone back to afterwards."""
    before = stack.api("GET", "/fleets/digits/policy")
    assert before["policy"]["strategy"] == "least_expected_work"
    yield before["revision"]
    stack.api("POST", f"/fleets/digits/revisions/{before['revision']}/restore")
    assert stack.api("GET", "/fleets/digits/policy")["policy"] == before["policy"]


def test_the_strategy_changes_under_way(stack: Stack, policy_revision: int) -> None:
    """Round robin by weight 4 : 2 : 1 gives each its exact share, whatever its speed."""
    with Traffic(stack) as traffic:
        changed = time.monotonic()
        change = {"strategy": "round_robin", "slow_start_s": 0}
        answer = stack.api("PATCH", "/fleets/digits/policy", change)
        assert answer["revision"] == policy_revision + 1
        assert answer["workers"]["live"] == 2
        reaches_all(lambda: stack.api("PATCH", "/fleets/digits/policy", change), 2)
        seen = traffic.wait_for(140, changed + EFFECT_S)
    shares = Counter(one.replica for one in seen)
    assert shares["linear"] / len(seen) == pytest.approx(4 / 7, abs=0.05)
    assert shares["forest"] / len(seen) == pytest.approx(2 / 7, abs=0.05)
    assert shares["large-forest"] / len(seen) == pytest.approx(1 / 7, abs=0.05)
    assert traffic.failures() == []


def test_weight_0_takes_nothing_new_within_a_second(stack: Stack) -> None:
    with Traffic(stack) as traffic:
        until(lambda: "linear" in traffic.replicas(), "linear is used")
        changed = time.monotonic()
        stack.api("PATCH", "/fleets/digits/replicas/linear", {"weight": 0})
        traffic.wait_for(20, changed + EFFECT_S)
        assert "linear" not in traffic.replicas(changed + EFFECT_S)
        stack.api("PATCH", "/fleets/digits/replicas/linear", {"weight": None})
        until(lambda: traffic.seen[-1].replica == "linear", "linear is used again")
    assert traffic.failures() == []


def test_a_drained_replica_finishes_and_takes_nothing_new(stack: Stack) -> None:
    with Traffic(stack) as traffic:
        until(lambda: "linear" in traffic.replicas(), "linear is used")
        changed = time.monotonic()
        stack.api("PATCH", "/fleets/digits/replicas/linear", {"admin_state": "draining"})
        traffic.wait_for(20, changed + EFFECT_S)
        assert "linear" not in traffic.replicas(changed + EFFECT_S)
        stack.api("PATCH", "/fleets/digits/replicas/linear", {"admin_state": "active"})
        until(lambda: traffic.seen[-1].replica == "linear", "linear is used again")
    assert traffic.failures() == []


def test_once_keys_are_needed_the_example_client_has_one(stack: Stack) -> None:
    """Only its requests are answered from then on; its key is listed, and its file is for this user only."""
    made = stack.api("POST", "/client-keys", {"name": "website"})
    file = stack.data / "example-client.key"
    try:
        until(file.exists, "it has a key", 30)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        until(lambda: stack.ask("/v2/models/digits/infer", one_digit()).status == 401, "a key is needed")
        answered = requests_answered(stack)
        until(lambda: requests_answered(stack) > answered + 3, "the client's requests are answered", 60)
        listed = {row["name"]: row for row in stack.api("GET", "/client-keys")["results"]}
        assert listed["example client"]["fleets"] == ["digits", "tiny-llm"]
        assert listed["example client"]["created_by"] == "up"
    finally:
        revoke = [made["id"], *(row["id"] for row in stack.api("GET", "/client-keys")["results"])]
        for key in set(revoke):
            exchange(stack.port, "DELETE", f"/api/v1/client-keys/{key}", None, stack.authorization)
        still = stack.ask("/v2/models/digits/infer", one_digit()).status
        stack.api("PATCH", "/client-keys/settings", {"required": False})
    assert still == 401, "the last key's revocation opened the proxy"
    until(lambda: not file.exists(), "it needs none any more", 30)
    until(lambda: stack.ask("/v2/models/digits/infer", one_digit()).status == 200, "nobody needs one")


def requests_answered(stack: Stack) -> float:
    exposed = exchange(stack.admin_port, "GET", "/metrics").body.decode()
    found = re.findall(
        r'^switchyard_answered_total\{fleet="(?:digits|tiny-llm)"[^}]*\} (\S+)$', exposed, re.M
    )
    return sum(float(value) for value in found)


def test_frames_follow_the_traffic(stack: Stack) -> None:
    with Traffic(stack):
        first = stack.api("GET", "/fleets/digits/live")["frame"]
        until(lambda: moved(stack, first["at"]), "a newer frame with traffic in it")


def moved(stack: Stack, at: float) -> bool:
    live = stack.api("GET", "/fleets/digits/live")
    return bool(live["frame"]["at"] > at and live["frame"]["point"]["rps"] > 5)


def test_nothing_answers_without_a_token(stack: Stack) -> None:
    assert exchange(stack.port, "GET", "/api/v1/fleets").status == 401
