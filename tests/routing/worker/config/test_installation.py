"""A proxy routes for one installation: what another one publishes is refused, told, and changes nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys
from tests.proxy_process import Load, Proxy, Publisher, Replica, snapshot, until

OURS, THEIRS = "installation-a", "installation-b"


@pytest.fixture
def start(proxy: Callable[..., Proxy], redis_url: str, tmp_path: Path) -> Callable[[], Proxy]:
    """Starts a proxy on the test's Redis, with a state directory."""

    def start() -> Proxy:
        arguments = ("--redis", redis_url, "--state-dir", str(tmp_path / "state"), "--workers", "2")
        return proxy(*arguments, "--name", "edge", "--min-drain-seconds", "0")

    return start


def publish(
    publisher: Publisher, installation: str, version: int, replicas: list[Replica], /, **fields: Any
) -> None:
    epoch = fields.pop("epoch", 1)
    publisher.fleet(snapshot(version, replicas, epoch=epoch, installation=installation))
    publisher.manifest(version, epoch=epoch, installation=installation, **fields)


def refusals(running: Proxy) -> list[str]:
    rows = running.status()["workers"]
    return [row["refused_manifest"] for row in rows if row.get("refused_manifest")]


def saved_manifest(directory: Path) -> Any:
    """Empty before there is one."""
    file = directory / "state" / "manifest.json"
    return json.loads(file.read_text()) if file.exists() else {}


def test_an_emptied_redis_does_not_make_it_forget(
    start: Callable[[], Proxy], publisher: Publisher, replicas: list[Replica], tmp_path: Path
) -> None:
    a, b = replicas
    publish(publisher, OURS, 1, [a])
    running = start().ready()
    until(lambda: publisher.applied("1:1", workers=2), "the table is in use")
    with Load(running) as load:
        publisher.client.flushall()
        publish(publisher, THEIRS, 90, [b], epoch=7)
        until(lambda: len(refusals(running)) == 2, "both workers refuse it")
        load.more()
        # Not even without fleets, which would remove all.
        publisher.manifest(91, epoch=7, installation=THEIRS, fleets={}, default=None)
        until(lambda: all("version 7:91" in why for why in refusals(running)), "and the next one")
        load.more()
        until(lambda: "switchyard_manifest_refused 1" in running.admin("/metrics")[1], "the metric says so")
        until(lambda: len(publisher.reported()) == 2, "reports arrive")
        until(lambda: all(r["refused_manifest"] for r in publisher.reported()), "and say so")
        assert {report["installation"] for report in publisher.reported()} == {OURS}

        # Its own control plane comes back, and all is well again.
        publisher.client.delete(redis_keys.MANIFEST, redis_keys.fleet_key("echo"))
        publish(publisher, OURS, 2, [a])
        until(lambda: publisher.applied("1:2", workers=2), "the next table of its own")
        until(lambda: refusals(running) == [], "nothing is refused any more")
        load.more()
    assert not load.failures
    assert set(load.answers) == {(200, "a")}
    until(lambda: saved_manifest(tmp_path).get("version") == 2, "the copy on disk")
    assert saved_manifest(tmp_path)["installation"] == OURS


def test_it_remembers_over_a_restart(
    start: Callable[[], Proxy], publisher: Publisher, replicas: list[Replica], tmp_path: Path
) -> None:
    a, b = replicas
    publish(publisher, OURS, 1, [a])
    running = start().ready()
    for name in "fleet-echo.json", "manifest.json":
        until((tmp_path / "state" / name).exists, "the copy on disk")
    running.signal()
    assert running.exit_status() == 0
    publisher.client.flushall()
    publish(publisher, THEIRS, 1, [b], epoch=2)
    again = start().ready()
    until(lambda: len(refusals(again)) == 2, "both workers refuse it")
    assert again.get() == (200, "a")
    assert saved_manifest(tmp_path)["installation"] == OURS


def test_it_follows_a_takeover(
    start: Callable[[], Proxy], publisher: Publisher, replicas: list[Replica], tmp_path: Path
) -> None:
    a, b = replicas
    publish(publisher, OURS, 5, [a])
    running = start().ready()
    until(lambda: publisher.applied("1:5", workers=2), "the table is in use")
    with Load(running) as load:
        load.more()
        publish(publisher, THEIRS, 1, [b], epoch=2, succeeded=[OURS])
        until(lambda: publisher.applied("2:1", workers=2), "the table of the other one")
        assert running.get() == (200, "b")
        until(lambda: saved_manifest(tmp_path).get("installation") == THEIRS, "the copy on disk")
        # From now on it is the former one that is refused.
        publisher.client.delete(redis_keys.MANIFEST)
        publisher.manifest(9, epoch=9, installation=OURS)
        until(lambda: len(refusals(running)) == 2, "both workers refuse it")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert running.get() == (200, "b")
