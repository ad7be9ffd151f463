"""The parts of the process shell that need no process: framing, sums, exposition, disk copy, overlay."""

import asyncio
import socket
import stat
from pathlib import Path
from random import Random
from typing import Any

import pytest

from routing.balancing.pool.table import Table
from routing.contract.sketch import bucket_of
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec
from routing.contract.telemetry import FleetCounters, KeyCounters, ReplicaCounters, WorkerReport
from routing.ipc.control_channel import Applied, ControlChannel, Drain, Message, StopAccepting, Tables
from routing.master.admin.aggregate import RetiredCounters, aggregate_fleets, aggregate_keys
from routing.master.admin.emergency_drain import DEFAULT_S, EmergencyDrains
from routing.master.admin.exposition import Exposition
from routing.master.admin.replica_metrics import replica_metrics
from routing.master.disk_cache import DiskCache
from routing.master.listeners import Address
from routing.worker.config.table_applier import TableApplier


def table(version: int = 1, replicas: int = 2) -> FleetSnapshot:
    specs = [
        ReplicaSpec(uid=f"u{number}", name=f"r{number}", url=f"http://10.0.0.{number}:80")
        for number in range(1, replicas + 1)
    ]
    return FleetSnapshot(
        epoch=1, version=version, revision=1, name="echo", protocol="generic", replicas=specs
    )


MANIFEST = Manifest(epoch=1, version=1, fleets={"echo": 1}, default="echo")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("[::1]:8080", Address("::1", 8080)),
        ("proxy:0", Address("proxy", 0)),
    ],
)
def test_an_address_is_read_and_printed_the_same(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected
    assert str(expected) == text


async def test_messages_cross_the_channel_whole_and_in_order() -> None:
    received: list[Message] = []
    closed = asyncio.Event()
    left, right = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, sender = await loop.create_unix_connection(
        lambda: ControlChannel(received.append, lambda: None), sock=left
    )
    await loop.create_unix_connection(lambda: ControlChannel(received.append, closed.set), sock=right)
    sent: list[Message] = [
        Applied(manifest="1:1"),
        Tables(manifest=MANIFEST, snapshots=[table(replicas=3000)]),
        StopAccepting(quiet_s=1.0),
    ]
    for message in sent:
        sender.send(message)
    sender.close()
    await asyncio.wait_for(closed.wait(), 10)
    assert received == sent
    sender.send(StopAccepting(quiet_s=1.0))
    assert len(received) == 3


async def test_a_message_may_come_one_byte_at_a_time() -> None:
    received: list[Message] = []
    channel = ControlChannel(received.append, lambda: None)
    body = b"\x81\xa4type\xa5drain"
    for byte in len(body).to_bytes(4, "big") + body:
        channel.data_received(bytes([byte]))
    assert received == [Drain()]


def report(requests: int, in_flight: int = 0, seconds: float = 0.02) -> WorkerReport:
    replica = ReplicaCounters(uid="u1", name="r1", picked=requests, in_flight=in_flight)
    fleet = FleetCounters(
        name="echo", requests=requests, in_flight=in_flight, latency={bucket_of(seconds): requests}
    )
    fleet.replicas = [replica]
    fleet.queued, fleet.queue_full, fleet.queue_late, fleet.cold = requests, 3, 2, 1
    fleet.waiting, fleet.oldest_wait_s, fleet.waited = in_flight, float(in_flight), fleet.latency
    return WorkerReport(worker="w", incarnation=1, sequence=1, fleets=[fleet], cpu_s=1.0)


def test_what_a_dead_worker_counted_stays_in_the_sums() -> None:
    totals = RetiredCounters()
    [before] = aggregate_fleets(totals, [report(10, in_flight=2), report(5)])
    totals.retire(report(10, in_flight=2))
    [after] = aggregate_fleets(totals, [report(0), report(5)])
    assert (before.requests, after.requests) == (15, 15)
    assert (before.in_flight, after.in_flight) == (2, 0)
    assert (before.replicas[0].picked, after.replicas[0].picked) == (15, 15)
    assert sum(after.latency.values()) == sum(after.waited.values()) == 15
    assert (after.queued, after.queue_full, after.queue_late, after.cold) == (15, 9, 6, 3)
    assert (before.waiting, before.oldest_wait_s) == (2, 2.0)
    assert (after.waiting, after.oldest_wait_s) == (0, 0.0)
    # Merging reads; it must not add to what is kept.
    assert (
        aggregate_fleets(totals, [report(0)])[0].requests
        == aggregate_fleets(totals, [report(0)])[0].requests
        == 10
    )


def test_what_a_dead_worker_counted_of_a_key_stays_in_the_sums() -> None:
    totals = RetiredCounters()

    def report_of(*keys: KeyCounters) -> WorkerReport:
        return WorkerReport(worker="w", incarnation=1, sequence=1, keys=list(keys))

    dead = KeyCounters(
        id="a", requests=5, in_flight=2, limited=1, limited_by={"max_concurrency": 1}, tokens=7
    )
    totals.retire(report_of(dead, KeyCounters(id="gone", requests=9)))
    totals.retire(report_of(KeyCounters(id="a", requests=1)))
    alive = KeyCounters(id="a", requests=3, in_flight=1, limited=1, limited_by={"requests_per_minute": 1})
    other = KeyCounters(id="b", requests=1)
    found = aggregate_keys(
        totals, [report_of(other), report_of(alive), report_of(KeyCounters(id="a", tokens=1))]
    )
    limited_by = {"max_concurrency": 1, "requests_per_minute": 1}
    summed = KeyCounters(id="a", requests=9, in_flight=1, limited=2, limited_by=limited_by, tokens=8)
    assert found == [summed, other]


def test_a_histogram_is_cumulative_and_labels_are_escaped() -> None:
    out = Exposition()
    out.histogram("t", "Help.", [((("fleet", 'a"b\\'),), {bucket_of(0.02): 3, bucket_of(400.0): 1})])
    lines = out.encode().decode().splitlines()
    assert lines[:2] == ["# HELP t Help.", "# TYPE t histogram"]
    assert 't_bucket{fleet="a\\"b\\\\",le="0.01"} 0' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="0.025"} 3' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="300.0"} 3' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="+Inf"} 4' in lines
    assert 't_count{fleet="a\\"b\\\\"} 4' in lines
    total = float(next(line for line in lines if line.startswith("t_sum")).rpartition(" ")[2])
    assert total == pytest.approx(400.06, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "ejected_for_s", "drained", "eligible"),
    [
        ({}, None, [], 1),
        ({"health": "unready"}, None, [], 0),
        ({"admin_state": "maintenance"}, None, [], 0),
        ({"weight": 0.0}, None, [], 0),
        ({}, 3.0, [], 0),
        ({}, 0.0, [], 0),
        ({"credential": "env:K"}, None, [], 0),
        ({}, None, [("f", "a")], 0),
        ({}, None, [("f", "b"), ("g", "a")], 1),
    ],
)
def test_a_replica_is_eligible_in_metrics_when_everything_allows_it(
    changes: dict[str, Any], ejected_for_s: float | None, drained: list[tuple[str, str]], eligible: int
) -> None:
    """One worker that has ejected it is enough; while it is on probation it is still ejected."""
    spec = ReplicaSpec(uid="u", name="a", url="http://10.0.0.1", **changes)
    table = FleetSnapshot(epoch=1, version=1, revision=1, name="f", protocol="generic", replicas=[spec])
    seen = [None, ejected_for_s]
    reports = [
        WorkerReport(
            worker=f"w{number}",
            incarnation=1,
            sequence=1,
            fleets=[
                FleetCounters(
                    name="f",
                    replicas=[
                        ReplicaCounters(uid="u", name="a", ejected_for_s=for_s, no_credential=spec.credential)
                    ],
                )
            ],
        )
        for number, for_s in enumerate(seen)
    ]
    out = Exposition()
    replica_metrics(out, [table], drained, aggregate_fleets(RetiredCounters(), reports))
    lines = out.encode().decode().splitlines()
    assert f'switchyard_replica_eligible{{fleet="f",replica="a"}} {eligible}' in lines
    assert f'switchyard_replica_health{{fleet="f",replica="a",state="{spec.health}"}} 1' in lines
    wanted = "draining" if ("f", "a") in drained else spec.admin_state
    assert f'switchyard_replica_admin_state{{fleet="f",replica="a",state="{wanted}"}} 1' in lines


def test_the_disk_copy_is_read_as_it_was_saved(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    assert DiskCache(directory).load() is None
    copy = DiskCache(directory)
    copy.save(MANIFEST, [table()])
    assert DiskCache(directory).load() == (MANIFEST, [table()])
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {"manifest.json", "fleet-echo.json"}

    copy.save(Manifest(epoch=1, version=2), [])
    assert {path.name for path in directory.iterdir()} == {"manifest.json"}


def test_a_damaged_file_costs_that_file_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    DiskCache(tmp_path).save(MANIFEST, [table()])
    (tmp_path / "fleet-echo.json").write_bytes(b'{"epoch": 1, "ver')
    assert DiskCache(tmp_path).load() == (MANIFEST, [])
    assert "fleet-echo.json cannot be used" in caplog.text
    (tmp_path / "manifest.json").write_bytes(b"\xff")
    assert DiskCache(tmp_path).load() is None


def test_an_emergency_drain_runs_out() -> None:
    drains = EmergencyDrains()
    drains.drain("echo", "r1", 100.0)
    drains.drain("echo", "r2", 100.0, 60.0)
    assert drains.all() == [("echo", "r1", 100.0 + DEFAULT_S), ("echo", "r2", 160.0)]
    assert drains.expire(160.0) == [("echo", "r2", 160.0)]
    assert not drains.expire(100.0 + DEFAULT_S - 1)
    assert drains.expire(100.0 + DEFAULT_S) == [("echo", "r1", 100.0 + DEFAULT_S)]
    assert drains.all() == []
    assert not drains.undrain("echo", "r1")


def test_an_emergency_drain_lies_over_every_table_and_is_never_kept() -> None:
    taken: list[tuple[Manifest | None, list[FleetSnapshot]]] = []
    feed = TableApplier(Table(rng=Random(1)), lambda manifest, snapshots: taken.append((manifest, snapshots)))

    def states() -> list[str]:
        return [replica.spec.admin_state for replica in feed.table.fleets["echo"].replicas]

    feed.apply(MANIFEST, [table()])
    feed.apply_emergency_drains([("echo", "r1", 50.0), ("gone", "r1", 60.0)])
    assert states() == ["draining", "active"]
    told = [(one.fleet, one.replica, one.expires_in_s) for one in feed.drained_by_hand(52.0)]
    assert told == [("echo", "r1", 0.0), ("gone", "r1", 8.0)]
    live = feed.table.fleets["echo"].replicas[0]
    feed.apply(None, [table(version=2)])
    assert states() == ["draining", "active"]
    assert feed.fleet_version("echo") == (1, 2)
    feed.apply_emergency_drains([])
    assert states() == ["active", "active"]
    assert feed.table.fleets["echo"].replicas[0] is live
    assert taken == [(MANIFEST, [table()]), (None, [table(version=2)])]


def test_a_refusal_is_told_until_a_good_table_comes() -> None:
    feed = TableApplier(Table(rng=Random(1)), lambda manifest, snapshots: None)
    feed.apply(MANIFEST, [table()])
    bad = FleetSnapshot(
        epoch=1, version=2, revision=1, name="echo", protocol="generic", replicas=table().replicas * 2
    )
    feed.apply(None, [bad])
    ack = feed.fleet_acknowledgement("echo")
    assert ack.applied == "1:1"
    assert "uid" in ack.refused
    assert feed.reports()[0].refused == ack.refused
    feed.apply(None, [table(version=3)])
    assert feed.fleet_acknowledgement("echo").refused == ""
    feed.apply(Manifest(epoch=1, version=2, default="nobody"), [])
    assert "nobody" in feed.manifest_acknowledgement().refused
    assert feed.manifest_acknowledgement().applied == "1:1"
