"""Tables of many replicas: read in chunks, whatever is written meanwhile, while requests are served."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys, snapshot_chunks
from routing.contract.table import FleetSnapshot, ReplicaSpec, encode
from tests.proxy_process import Load, Proxy, Publisher, Replica, snapshot, until

MANY = 2 * snapshot_chunks.CHUNK_REPLICAS + 1


@pytest.fixture
def start(proxy: Callable[..., Proxy], redis_url: str, tmp_path: Path) -> Callable[..., Proxy]:
    def start(workers: int = 2) -> Proxy:
        arguments = ("--redis", redis_url, "--state-dir", str(tmp_path / "state"), "--workers", str(workers))
        return proxy(*arguments, "--name", "edge", "--min-drain-seconds", "0")

    return start


def many(version: int, replica: Replica, number: int = MANY, **fields: Any) -> FleetSnapshot:
    """That replica, under many names."""
    names = [f"{replica.name}{n}" for n in range(number)]
    listed = [ReplicaSpec(uid=name, name=name, url=replica.url) for name in names]
    return snapshot(version, [], replicas=listed, **fields)


def test_a_table_in_chunks_is_applied_and_replaced_while_requests_go_on(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    a, b = replicas
    publisher.fleet(snapshot(1, [a]))
    publisher.manifest(1)
    running = start().ready()
    with Load(running) as load:
        load.more()
        publisher.fleet(many(2, a))
        until(lambda: publisher.applied("1:2", workers=2), "all of it is in use")
        load.more()
        publisher.fleet(many(3, b, MANY + 700))
        until(lambda: publisher.applied("1:3", workers=2), "a larger one")
        publisher.fleet(snapshot(4, [a, b]))
        until(lambda: publisher.applied("1:4", workers=2), "a small one")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert publisher.client.hget(redis_keys.fleet_key("echo"), snapshot_chunks.CHUNKS) is None


def test_a_new_proxy_begins_with_a_table_in_chunks_and_keeps_a_copy_of_it(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    publisher.fleet(many(1, replicas[0]))
    publisher.manifest(1)
    first = start(1).ready()
    until(lambda: publisher.applied("1:1", workers=1), "it is in use")
    assert first.get()[0] == 200
    assert len(first.replicas("echo")) == MANY


def fleet_file(path: Path, replica: Replica, weight: float) -> Path:
    """That replica, under many names. Replaced as a whole."""
    listed = [f"      - {{name: r{n}, url: {replica.url!r}, weight: {weight}}}" for n in range(MANY)]
    head = [
        "version: 1",
        "fleets:",
        "  - name: echo",
        "    protocol: generic",
        "    default: true",
        "    replicas:",
    ]
    new = path.with_suffix(".new")
    new.write_text("\n".join([*head, *listed, ""]))
    return new.replace(path)


def test_a_large_fleet_file_is_reloaded_while_requests_go_on(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    path = fleet_file(tmp_path / "fleets.yaml", replicas[0], 1.0)
    running = proxy("--fleets", str(path), "--workers", "1", "--min-drain-seconds", "0").ready()
    assert len(running.replicas("echo")) == MANY
    with Load(running) as load:
        load.more()
        fleet_file(path, replicas[1], 2.0)
        until(lambda: running.replicas("echo")["r7"]["url"] == replicas[1].url, "the new file is in use")
        load.more()
        assert running.admin("/fleets/echo/replicas/r7/drain", "POST")[0] == 200
        until(lambda: not running.replicas("echo")["r7"]["eligible"], "one is drained")
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert len(running.replicas("echo")) == MANY


def test_the_old_form_of_a_large_table_is_still_read(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    large = many(1, replicas[0])
    key = redis_keys.fleet_key("echo")
    publisher.client.hset(key, mapping={"epoch": 1, "version": 1, "body": encode(large)})
    publisher.manifest(1)
    assert start(1).ready().get()[0] == 200
    until(lambda: publisher.applied("1:1", workers=1), "it is in use")


def test_a_chunk_that_cannot_be_read_is_refused_and_the_last_table_stays(
    start: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica]
) -> None:
    a, b = replicas
    publisher.fleet(snapshot(1, [a]))
    publisher.manifest(1)
    running = start(1).ready()
    until(lambda: publisher.applied("1:1", workers=1), "the first table is in use")
    key = redis_keys.fleet_key("echo")
    fields = {**snapshot_chunks.stored_fields(many(2, b)), "replicas:1": b"[{}]"}
    publisher.client.hset(key, mapping={"epoch": 1, "version": 2, **fields})
    publisher.client.publish(redis_keys.CHANGES_CHANNEL, "echo")
    [ack] = until(lambda: [ack for ack in publisher.acks().values() if ack.refused], "a refusal")
    assert ack.applied == "1:1"
    assert running.get() == (200, "a")
    publisher.fleet(many(3, b))
    until(lambda: publisher.applied("1:3", workers=1), "the next good one")
    assert running.get() == (200, "b")
