"""A table that no control plane writes: the last good one stays, an alarm says so, and it ends by itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys
from routing.contract.table import Manifest, encode
from tests.proxy_process import Load, Proxy, Publisher, Replica, snapshot, until

ABSURD = 2**63 - 1


def put(publisher: Publisher, manifest: Manifest) -> None:
    """As a person with ``redis-cli`` might."""
    fields = {"epoch": manifest.epoch, "version": manifest.version, "body": encode(manifest)}
    publisher.client.hset(redis_keys.MANIFEST, mapping=fields)
    publisher.client.publish(redis_keys.CHANGES_CHANNEL, "*")


@pytest.fixture
def running(
    proxy: Callable[..., Proxy], redis_url: str, tmp_path: Path, publisher: Publisher, replicas: list[Replica]
) -> Proxy:
    """A proxy with a table of installation ``ours`` and a state directory."""
    publisher.fleet(snapshot(1, replicas, installation="ours"))
    publisher.manifest(1, installation="ours")
    arguments = ("--redis", redis_url, "--state-dir", str(tmp_path / "state"), "--workers", "2")
    started = proxy(*arguments, "--name", "edge", "--min-drain-seconds", "0").ready()
    until(lambda: publisher.applied("1:1", workers=2), "the table is in use")
    for name in "fleet-echo.json", "manifest.json":
        until((tmp_path / "state" / name).exists, "it is on disk")
    return started


def alarms(running: Proxy) -> int:
    return sum(bool(row.get("refused_manifest")) for row in running.status()["workers"])


@pytest.mark.parametrize(
    ("mistake", "why"),
    [
        (Manifest(epoch=ABSURD, version=1), "no control plane writes a version like"),
        (Manifest(epoch=2, version=1), "it has no fleets and names no installation"),
    ],
    ids=["absurd epoch", "no fleets"],
)
@pytest.mark.parametrize("cure", ["deleted", "corrected"])
def test_the_last_good_table_stays_and_the_next_good_one_is_taken(
    running: Proxy,
    publisher: Publisher,
    replicas: list[Replica],
    tmp_path: Path,
    mistake: Manifest,
    why: str,
    cure: str,
) -> None:
    saved = tmp_path / "state" / "manifest.json"
    before = saved.read_bytes()
    with Load(running) as load:
        put(publisher, mistake)
        until(lambda: alarms(running) == 2, "both workers refuse it")
        assert why in running.status()["workers"][0]["refused_manifest"]
        assert "switchyard_manifest_refused 1" in running.admin("/metrics")[1]
        load.more()
        publisher.client.delete(redis_keys.MANIFEST)
        if cure == "corrected":
            publisher.manifest(1, installation="ours")
        until(lambda: alarms(running) == 0, "nothing is refused any more")
        publisher.fleet(snapshot(2, replicas[1:], installation="ours"))
        publisher.manifest(2, installation="ours")
        until(lambda: publisher.applied("1:2", workers=2), "the next table")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert running.get() == (200, "b")
    until(lambda: saved.read_bytes() != before, "the copy on disk")
    assert json.loads(saved.read_bytes())["version"] == 2


def test_a_fleet_with_an_absurd_version(
    running: Proxy, publisher: Publisher, replicas: list[Replica]
) -> None:
    key = redis_keys.fleet_key("echo")
    before = publisher.client.hgetall(key)

    def refused() -> list[str]:
        return [why for row in running.status()["workers"] for why in row["refused_tables"].values()]

    table: Any = snapshot(1, [], epoch=ABSURD)
    publisher.client.hset(key, mapping={"epoch": ABSURD, "version": 1, "body": encode(table)})
    publisher.client.publish(redis_keys.CHANGES_CHANNEL, "echo")
    until(lambda: len(refused()) == 2, "both workers refuse it")
    assert running.get()[0] == 200
    publisher.client.delete(key)
    publisher.client.hset(key, mapping=before)
    until(lambda: refused() == [], "nothing is refused any more")
    publisher.fleet(snapshot(2, replicas[1:], installation="ours"))
    until(lambda: publisher.applied("1:2", workers=2), "the next table")
    assert running.get() == (200, "b")
