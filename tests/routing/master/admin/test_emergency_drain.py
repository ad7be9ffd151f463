"""The emergency drain: for how long, what is left, and where it shows."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until


@pytest.fixture
def running(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> Proxy:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    return proxy("--fleets", str(file), "--workers", "2").ready()


def post(running: Proxy, replica: str, what: str) -> dict[str, Any]:
    status, said = running.admin(f"/fleets/echo/replicas/{replica}/{what}", "POST")
    assert status == 200, said
    result: dict[str, Any] = json.loads(said)
    return result


def left_s(running: Proxy, replica: str) -> int | None:
    found: int | None = running.replicas("echo")[replica]["drained_by_hand_for_s"]
    return found


def test_it_lasts_as_long_as_is_said(running: Proxy) -> None:
    assert post(running, "a", "drain?for_s=600") == {
        "fleet": "echo",
        "replica": "a",
        "drained": True,
        "expires_in_s": 600,
        "asked_now": ["b"],
    }
    assert 590 <= (left_s(running, "a") or 0) <= 600
    assert left_s(running, "b") is None
    [said] = re.findall(
        r'^switchyard_replica_drained_by_hand_seconds{fleet="echo",replica="(.)"} (\S+)$',
        running.admin("/metrics")[1],
        re.M,
    )
    assert said[0] == "a"
    assert 590 < float(said[1]) <= 600
    # Sent again, it ends sooner; and ends by itself.
    assert post(running, "a", "drain?for_s=1")["expires_in_s"] == 1
    assert {running.get() for _ in range(6)} == {(200, "b")}
    until(lambda: left_s(running, "a") is None, "it has run out", limit_s=5)
    until(lambda: running.replicas("echo")["a"]["eligible_in_workers"] == 2, "it is back", limit_s=2)
    assert "drained_by_hand_seconds" not in running.admin("/metrics")[1]
    assert "emergency drain of replica a of fleet echo for 600 s" in running.log
    assert "the emergency drain of replica a of fleet echo has run out" in running.log


def test_the_last_one_is_drained_with_a_warning(running: Proxy) -> None:
    assert "warning" not in post(running, "a", "drain")
    answer = post(running, "b", "drain")
    assert answer["asked_now"] == []
    assert answer["warning"].startswith(
        "no replica of fleet echo gets requests at this proxy now, so its requests wait or fail. a: draining"
    )
    assert running.get()[0] == 503
    assert post(running, "a", "undrain") == {
        "fleet": "echo",
        "replica": "a",
        "drained": False,
        "asked_now": ["a"],
    }
    assert running.get() == (200, "a")
    assert "the emergency drain of replica a of fleet echo has ended" in running.log


@pytest.mark.parametrize(
    "query", ["for_s=0", "for_s=86401", "for_s=1.5", "for_s=-1", "for_s=1&x=1", "fors=1"]
)
def test_a_time_that_is_none_changes_nothing(running: Proxy, query: str) -> None:
    status, said = running.admin(f"/fleets/echo/replicas/a/drain?{query}", "POST")
    assert status == 400
    assert "whole seconds from 1 to 86400; without it, 3600" in said
    assert running.admin("/fleets/echo/replicas/a/undrain?for_s=1", "POST")[0] == 400
    assert running.status()["emergency_drains"] == []
