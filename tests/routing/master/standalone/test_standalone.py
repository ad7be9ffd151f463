"""A proxy that runs on a fleet file alone: reload, respawn, probes."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import Load, Proxy, Replica, fleet_file, until


def test_requests_are_spread_over_the_replicas(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    assert sorted(running.get() for _ in range(4)) == [(200, "a"), (200, "a"), (200, "b"), (200, "b")]


def test_an_edited_file_is_taken_over_without_a_lost_request(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    a, b = replicas
    file = fleet_file(tmp_path / "fleets.yaml", [a])
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    with Load(running) as load:
        load.more()
        fleet_file(file, [b])
        until(
            lambda: all(row["manifest"] == "1:2" for row in running.status()["workers"]), "table 2 is in use"
        )
        a_served = a.served
        load.more()
        assert a.served == a_served

        file.write_text("version: 1\nfleets:\n  - name: echo\n    protocols: generic\n")
        until(lambda: "line 4, column 5" in running.log, "the log says what is wrong")
        load.more()

        fleet_file(file, [a])
        until(
            lambda: all(row["manifest"] == "1:3" for row in running.status()["workers"]), "table 3 is in use"
        )
        load.more()
    assert not load.failures
    assert {status for status, _ in load.answers} == {200}
    assert load.answers[0][1] == load.answers[-1][1] == "a"


def test_a_connection_made_while_the_worker_is_dead_is_served_by_its_successor(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    running = proxy("--fleets", str(fleet_file(tmp_path / "fleets.yaml", replicas)), "--workers", "1").ready()
    [worker] = running.workers()
    os.kill(worker, signal.SIGKILL)
    assert running.get()[0] == 200
    [row] = running.status()["workers"]
    assert row["restarts"] == 1
    assert row["pid"] != worker


def test_a_killed_worker_costs_no_more_than_what_it_had_in_flight(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    running = proxy("--fleets", str(fleet_file(tmp_path / "fleets.yaml", replicas)), "--workers", "2").ready()
    with Load(running) as load:
        load.more()
        until(lambda: requests_total(running) >= 20, "the requests are reported")
        counted = requests_total(running)
        worker = running.workers()[0]
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker not in running.workers() and len(running.workers()) == 2, "there is a successor")
        assert requests_total(running) >= counted
        load.more()
    # One client has one request in flight.
    assert len(load.failures) <= 1
    assert {status for status, _ in load.answers} == {200}
    assert running.admin("/readyz")[0] == 200


def requests_total(proxy: Proxy) -> int:
    found = re.search(r'switchyard_requests_total{fleet="echo"} (\d+)', proxy.admin("/metrics")[1])
    return int(found[1]) if found else 0


def test_the_built_in_prober_decides_who_is_ready(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    a, b = replicas
    b.health_status = 503
    probe = {"preset": "http", "path": "/health", "period_s": 0.5, "rise": 1, "fall": 2}
    file = fleet_file(tmp_path / "fleets.yaml", replicas, probe=probe)
    running = proxy("--fleets", str(file), "--workers", "1", "--probe").ready()
    until(lambda: running.replicas("echo")["a"]["eligible"], "the first pass makes a replica ready")
    assert running.replicas("echo")["b"]["health"] == "checking"
    # What its probes see is said once, however many see it.
    seen = "replica b of fleet echo is checking: 503 Service Unavailable"
    until(lambda: running.log.count(seen) == 1, "the log says what keeps b out")
    until(lambda: b.probed >= 3, "b is probed again")
    assert running.log.count(seen) == 1
    assert [row["startup_s"] for row in running.replicas("echo").values()] == [None, None]
    assert {running.get() for _ in range(4)} == {(200, "a")}

    b.health_status = 200
    until(lambda: running.replicas("echo")["b"]["eligible"], "b has passed")
    # Its start was seen; that of a, which was there before, is expected to take as long.
    startup_s = running.replicas("echo")["b"]["startup_s"]
    assert 0.5 < startup_s < 20
    assert running.replicas("echo")["a"]["startup_s"] == startup_s
    a.health_status = 503
    until(lambda: running.replicas("echo")["a"]["health"] == "unready", "a has failed twice")
    row = running.replicas("echo")["a"]
    assert not row["eligible"]
    assert row["reasons"] == ["unready: its readiness probe fails"]
    assert row["asked_in_workers"] == 0
    assert {running.get() for _ in range(4)} == {(200, "b")}

    b.health_status = 503
    until(lambda: running.replicas("echo")["b"]["health"] == "unready", "b has failed twice")
    row = running.replicas("echo")["b"]
    assert (row["eligible"], row["eligible_in_workers"], row["asked_in_workers"]) == (False, 0, 1)
    assert row["reasons"][1].startswith("still gets requests: ")
    assert {running.get() for _ in range(4)} == {(200, "a"), (200, "b")}
