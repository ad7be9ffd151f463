"""Two sites on real sockets: a proxy asks its own first, spills what is too much, and says so."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.contract.policy import Policy
from routing.contract.table import ReplicaSpec
from tests.proxy_process import Proxy, Publisher, Replica, fleet_file, snapshot, until


def test_requests_stay_until_their_site_is_full(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    near, far = replicas
    entries = [
        {"name": "a", "url": near.url, "site": "east", "max_concurrency": 2},
        {"name": "b", "url": far.url, "site": "west", "max_concurrency": 2},
    ]
    file = fleet_file(tmp_path / "fleets.yaml", replicas, replicas=entries)
    running = proxy("--fleets", str(file), "--workers", "1", "--site", "east").ready()
    assert [running.get() for _ in range(6)] == [(200, "a")] * 6

    answers: list[tuple[int, str]] = []
    held = [threading.Thread(target=lambda: answers.append(running.get("/stream"))) for _ in range(2)]
    for thread in held:
        thread.start()
    until(lambda: running.replicas("echo")["a"]["in_flight"] == 2, "the own site is full")
    assert [running.get() for _ in range(3)] == [(200, "b")] * 3
    near.release.set()
    for thread in held:
        thread.join(10)
    assert answers == [(200, "firstlast")] * 2
    assert running.get() == (200, "a")

    status = running.status()
    assert status["site"] == "east"
    told = {row["replica"]: (row["site"], row["reasons"]) for row in status["fleets"]["echo"]["replicas"]}
    assert told == {"a": ("east", []), "b": ("west", ["at west: asked while east is more than 80 % busy"])}
    counted = {'switchyard_spilled_total{fleet="echo"} 3', 'switchyard_stayed_total{fleet="echo"} 9'}
    until(lambda: counted <= set(running.admin("/metrics")[1].splitlines()), "it is counted")


def test_the_environment_says_the_site_and_the_control_plane_hears_it(
    proxy: Callable[..., Proxy],
    publisher: Publisher,
    replicas: list[Replica],
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs = [
        # With a limit: without one a site is left by latencies, and a hiccup is enough for one request.
        ReplicaSpec(uid=one.name, name=one.name, url=one.url, site=site, max_concurrency=4)
        for one, site in zip(replicas, ("east", "west"), strict=True)
    ]
    publisher.fleet(snapshot(1, replicas, policy=Policy(strategy="round_robin"), replicas=specs))
    publisher.manifest(1)
    monkeypatch.setenv("SWITCHYARD_SITE", "west")
    running = proxy("--redis", redis_url, "--workers", "1").ready()
    assert [running.get() for _ in range(4)] == [(200, "b")] * 4
    until(lambda: [report["site"] for report in publisher.reported()] == ["west"], "a report")
