"""A proxy under a control plane: table from a real Redis, acknowledgements, and Redis going away."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys
from routing.contract.table import Match
from tests.proxy_process import Load, Proxy, Publisher, Replica, snapshot, until


@pytest.fixture
def start(proxy: Callable[..., Proxy], redis_url: str, tmp_path: Path) -> Callable[..., Proxy]:
    """Starts a proxy on the test's Redis, with a state directory."""

    def start(workers: int = 2, *flags: str) -> Proxy:
        state = str(tmp_path / "state")
        arguments = ("--redis", redis_url, "--state-dir", state, "--workers", str(workers))
        return proxy(*arguments, "--name", "edge", "--min-drain-seconds", "0", *flags)

    return start


def publish(publisher: Publisher, version: int, replicas: list[Replica], **fields: Any) -> None:
    publisher.fleet(snapshot(version, replicas, **fields))
    publisher.manifest(version, epoch=fields.get("epoch", 1))


def test_a_change_is_applied_and_acknowledged_by_its_announcement(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    a, b = replicas
    publish(publisher, 1, [a])
    running = start().ready()
    until(lambda: publisher.applied("1:1", workers=2), "both workers acknowledge the first table")
    assert set(publisher.acks()) == {f"edge/{running.process.pid}/{index}" for index in (0, 1)}
    assert running.get() == (200, "a")

    # Far quicker than the slow timer, ten times in a row: so it was the announcement.
    began = time.monotonic()
    for version in range(2, 12):
        publisher.fleet(snapshot(version, [b]))
        until(lambda: publisher.applied(f"1:{version}", workers=2), "both workers acknowledge it")  # noqa: B023
    assert time.monotonic() - began < 4.0
    assert {running.get() for _ in range(4)} == {(200, "b")}


def test_hosts_and_paths_hold_for_open_connections_within_a_moment(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    a, b = replicas
    publisher.fleet(snapshot(1, [a]))
    publisher.fleet(snapshot(1, [b], name="other"))
    names: dict[str, Any] = {"fleets": {"echo": 1, "other": 1}}
    publisher.manifest(1, **names, matches={"other": [Match(host="other.test", path_prefix="/x")]})
    running = start(1).ready()
    until(lambda: publisher.applied("1:1", workers=1, fleet="other"), "both fleets are known")
    connection = running.client()

    def answered_by(host: str, path: str) -> str:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().read().decode()

    asked = [("other.test:80", "/x/y"), ("other.test", "/"), ("echo.test", "/x")]
    assert [answered_by(*each) for each in asked] == ["b", "a", "a"]
    publisher.manifest(2, **names, matches={"other": [Match(host="echo.test")]})
    until(lambda: answered_by("echo.test", "/x") == "b", "the new match")
    assert [answered_by(*each) for each in asked] == ["a", "a", "b"]
    publisher.manifest(3, **names)
    until(lambda: answered_by("echo.test", "/x") == "a", "no match")
    connection.close()


def test_a_bad_table_is_refused_with_words_and_the_last_good_one_stays(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    publish(publisher, 1, replicas)
    running = start(1).ready()
    until(lambda: publisher.applied("1:1", workers=1), "the first table is in use")

    key = redis_keys.fleet_key("echo")
    publisher.client.hset(key, mapping={"epoch": 1, "version": 2, "body": '{"epoch": 1, "version": "two"}'})
    publisher.client.publish(redis_keys.CHANGES_CHANNEL, "echo")
    [ack] = until(lambda: [ack for ack in publisher.acks().values() if ack.refused], "a refusal")
    assert ack.applied == "1:1"
    assert "version" in ack.refused

    publisher.fleet(snapshot(3, replicas, policy=snapshot(3, []).policy.__class__(strategy="magic")))
    until(lambda: "magic" in next(iter(publisher.acks().values())).refused, "the next refusal")
    assert running.get()[0] == 200
    until(lambda: any("magic" in f["refused"] for r in publisher.reported() for f in r["fleets"]), "a report")

    publisher.fleet(snapshot(4, replicas))
    until(lambda: publisher.applied("1:4", workers=1), "the next good table")
    assert next(iter(publisher.acks().values())).refused == ""


def test_an_older_table_is_ignored_unless_its_epoch_is_later(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    a, b = replicas
    publish(publisher, 7, [a])
    running = start(1).ready()
    until(lambda: publisher.applied("1:7", workers=1), "version 7 is in use")

    publisher.client.delete(redis_keys.fleet_key("echo"), redis_keys.fleet_acks_key("echo"))
    publisher.fleet(snapshot(5, [b]))
    until(lambda: publisher.acks(), "the worker answers the older one with what it has")
    assert publisher.applied("1:7", workers=1)
    assert running.get() == (200, "a")

    publish(publisher, 2, [b], epoch=2)
    until(lambda: publisher.applied("2:2", workers=1), "a later epoch is newer")
    assert running.get() == (200, "b")


def test_only_a_manifest_removes_a_fleet(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], tmp_path: Path
) -> None:
    publish(publisher, 1, replicas)
    publisher.fleet(snapshot(1, replicas, name="other"))
    publisher.manifest(2, fleets={"echo": 1, "other": 1})
    running = start(1).ready()
    saved = tmp_path / "state" / "fleet-other.json"
    until(saved.exists, "both fleets are on disk")
    assert running.get("/fleets/other/x")[0] == 200

    publisher.manifest(3, fleets={"echo": 1})
    until(lambda: running.get("/fleets/other/x")[0] == 404, "the fleet is gone")
    assert running.get()[0] == 200
    until(lambda: not saved.exists(), "and from the disk")


def test_an_emptied_redis_changes_nothing_and_is_told_again(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    publish(publisher, 1, replicas)
    running = start().ready()
    until(lambda: publisher.applied("1:1", workers=2), "the table is in use")
    with Load(running) as load:
        load.more()
        publisher.client.flushall()
        load.more()
        # Nobody rings: the workers notice by themselves that their acknowledgements are gone.
        until(lambda: publisher.applied("1:1", workers=2), "acknowledged again", limit_s=20)
        publish(publisher, 2, replicas)
        until(lambda: publisher.applied("1:2", workers=2), "the next table is in use")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}


def test_redis_may_die_and_come_back(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_server: Any
) -> None:
    publish(publisher, 1, replicas[:1])
    running = start(2).ready()
    until(lambda: publisher.applied("1:1", workers=2), "the table is in use")
    with Load(running) as load:
        redis_server.stop()
        until(lambda: not any(row["redis_ok"] for row in running.status()["workers"]), "the loss is noticed")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert running.admin("/readyz")[0] == 200

    # A successor begins with what its parent has kept.
    worker = running.workers()[0]
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in running.workers() and len(running.workers()) == 2, "there is a successor")
    assert {running.get() for _ in range(6)} == {(200, "a")}

    # A whole proxy begins with what is on disk.
    running.signal()
    assert running.exit_status() == 0
    again = start(1).ready()
    assert again.get() == (200, "a")
    assert again.status()["workers"][0]["redis_ok"] is False

    redis_server.start()
    publish(publisher, 2, replicas[1:])
    until(lambda: publisher.applied("1:2", workers=1), "the worker has found the new server")
    assert again.get() == (200, "b")


def test_a_proxy_without_any_table_says_so(
    start: Callable[..., Proxy], replicas: list[Replica], publisher: Publisher
) -> None:
    running = start(1)
    until(lambda: running.workers(), "the worker serves although there is no table")
    assert running.admin("/readyz") == (503, "worker 0 has no routing table yet\n")
    assert running.get()[0] in (404, 503)
    publish(publisher, 1, replicas)
    running.ready()
    assert running.get()[0] == 200


def test_workers_report_each_second_and_leave_the_lists_when_they_end(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    publish(publisher, 1, replicas)
    running = start().ready()
    names = {f"edge/{running.process.pid}/{index}" for index in (0, 1)}
    for _ in range(3):
        assert running.get()[0] == 200

    def reports() -> dict[str, Any]:
        return {report["worker"]: report for report in publisher.reported()}

    until(lambda: reports().keys() == names, "both workers have reported")
    until(
        lambda: sum(r["fleets"][0]["requests"] for r in reports().values()) == 3, "all requests are counted"
    )
    first = reports()
    until(lambda: all(reports()[name]["sequence"] > first[name]["sequence"] for name in names), "and again")
    report = reports()[sorted(names)[0]]
    assert report["manifest"] == report["fleets"][0]["applied"] == "1:1"
    assert report["redis_ok"] is True
    assert {bytes(name).decode() for name in publisher.client.zrange(redis_keys.WORKERS, 0, -1)} == names

    running.signal()
    assert running.exit_status() == 0
    assert publisher.client.zcard(redis_keys.WORKERS) == 0
    assert publisher.acks() == {}


def test_the_emergency_drain_works_with_redis_gone(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_server: Any
) -> None:
    publish(publisher, 1, replicas)
    running = start(2).ready()
    until(lambda: publisher.applied("1:1", workers=2), "the table is in use")
    redis_server.stop()
    status, said = running.admin("/fleets/echo/replicas/a/drain", "POST")
    assert status == 200
    assert '"drained": true' in said
    until(lambda: not running.replicas("echo")["a"]["eligible"], "it is out")
    row = running.replicas("echo")["a"]
    assert row["eligible_in_workers"] == 0
    assert any("emergency drain" in reason for reason in row["reasons"])
    [drain] = running.status()["emergency_drains"]
    assert (drain["fleet"], drain["replica"]) == ("echo", "a")
    assert 3500 < drain["expires_in_s"] <= 3600
    assert {running.get() for _ in range(6)} == {(200, "b")}

    # It outlives the worker that was told, and a newer table.
    worker = running.workers()[0]
    os.kill(worker, signal.SIGKILL)
    until(lambda: worker not in running.workers() and len(running.workers()) == 2, "there is a successor")
    redis_server.start()
    publish(publisher, 2, replicas)
    until(lambda: publisher.applied("1:2", workers=2), "a newer table is in use")
    assert {running.get() for _ in range(6)} == {(200, "b")}
    until(lambda: all(r["drained_by_hand"] for r in publisher.reported()), "reports say so")
    for [told] in (report["drained_by_hand"] for report in publisher.reported()):
        assert (told["fleet"], told["replica"]) == ("echo", "a")
        assert 3500 < told["expires_in_s"] <= 3600

    assert running.admin("/fleets/echo/replicas/a/undrain", "POST")[0] == 200
    until(lambda: running.replicas("echo")["a"]["eligible_in_workers"] == 2, "it is back")
    assert {running.get() for _ in range(6)} == {(200, "a"), (200, "b")}
