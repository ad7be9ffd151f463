"""The end: Ctrl-C leaves nothing, a second start is refused, a killed one is followed by another."""

import http.client
import itertools
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from controlplane.supervision import state_file
from controlplane.supervision.processes import descendants
from tests.proxy_process import ROOT, Replica, until
from tests.small_disk import mounted
from tests.system.stack import Answer, Stack, Traffic, clean_environment, exchange, is_running

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

STOP_LIMIT_S = 10.0


def up(data: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    """A start that is to be refused."""
    command = [sys.executable, "manage.py", "up", *flags]
    environment = clean_environment(data)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_a_second_start_on_the_same_data_is_refused(stack: Stack) -> None:
    refused = up(stack.data)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Switchyard is already running on {stack.data}: stop it first")
    assert len(refused.stderr.splitlines()) == 1


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = up(tmp_path / "data", "--no-examples", "--port", str(port))
    assert refused.returncode == 1
    assert refused.stderr == (
        f"Port {port} is in use by another program, and the dashboard needs it: "
        "stop that program or choose another port with --port N.\n"
    )


def test_a_public_address_needs_names(tmp_path: Path) -> None:
    refused = up(tmp_path / "data", "--no-examples", "--host", "0.0.0.0")
    assert refused.returncode == 1
    assert refused.stderr.startswith("--host 0.0.0.0 opens the dashboard to other machines: set SWITCHYARD_")


def test_ctrl_c_ends_every_process_and_socket_within_ten_seconds(stack: Stack) -> None:
    below = descendants(stack.process.pid)
    assert len(below) >= 15
    started = time.monotonic()
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(STOP_LIMIT_S) == 0, stack.said
    assert time.monotonic() - started < STOP_LIMIT_S
    assert [pid for pid in below if is_running(pid)] == []
    assert stack.open_ports() == []
    assert stack.sockets() == []


@pytest.mark.long
def test_a_killed_up_leaves_the_proxy_which_the_next_one_adopts(tmp_path: Path) -> None:
    running = Stack(tmp_path, "--no-client")
    try:
        running.wait_until_up()
        with Traffic(running) as traffic:
            before = running_programs(running.data)
            running.process.kill()
            running.process.wait()
            at = len(traffic.seen)
            until(lambda: len(traffic.seen) > at + 50, "requests go on without a supervisor")
            refused = subprocess.run(
                [sys.executable, "bootstrap/reset.py"],
                cwd=ROOT,
                env=running.environment,
                capture_output=True,
                text=True,
            )
            assert "switchyard down" in refused.stderr
            running.start()
            running.wait_until_up()
            after = running_programs(running.data)
            at = len(traffic.seen)
            until(lambda: len(traffic.seen) > at + 50, "and with the next one")
        assert traffic.failures() == []
        assert after.keys() == before.keys()
        same = {name for name, pid in after.items() if before[name] == pid}
        assert same == before.keys() - {"web", "worker", "beat", "conductor"}
        os.kill(after["proxy"], signal.SIGKILL)
        until(lambda: running_programs(running.data).get("proxy", 0) not in (0, after["proxy"]), "restarted")
        running.process.kill()
        running.process.wait()
        assert down(running) == 0
        assert running.open_ports() == []
        assert running.sockets() == []
    finally:
        running.stop()


@pytest.mark.long
def test_down_stops_a_running_one_also_without_its_state_file(tmp_path: Path) -> None:
    running = Stack(tmp_path, "--no-examples")
    try:
        running.wait_until_up()
        (running.data / state_file.NAME).unlink()
        (running.data / state_file.NAME).mkdir()
        assert down(running) == 0
        assert running.process.wait(STOP_LIMIT_S) == 0, running.said
        assert running.open_ports() == []
    finally:
        running.stop()


def running_programs(data: Path) -> dict[str, int]:
    return {one.name: one.pid for one in state_file.read(data).running()}


def down(running: Stack) -> int:
    command = [sys.executable, "manage.py", "down", "--data-dir", str(running.data)]
    return subprocess.run(command, cwd=ROOT, env=running.environment, timeout=60).returncode


@pytest.mark.long
def test_a_full_data_disk_ends_nothing_and_refuses_changes_until_there_is_room(tmp_path: Path) -> None:
    replica = Replica("a")
    with mounted(tmp_path / "data", mebibytes=96) as disk:
        running = Stack(tmp_path, "--no-examples")
        try:
            running.wait_until_up()
            running.api("POST", "/fleets", fleet_of(replica))
            until(lambda: running.eligible("streams") == {"a"}, "the replica is ready", 60)
            before = running_programs(running.data)
            with closing(sqlite3.connect(running.data / "db.sqlite3", timeout=30)) as database:
                # Else there would be room in the write-ahead log for a while.
                until(lambda: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "done")
            disk.fill()
            numbers = itertools.count()

            def refused() -> Answer | None:
                body = {"name": f"more-{next(numbers)}", "protocol": "generic"}
                answer = exchange(running.port, "POST", "/api/v1/fleets", body, running.authorization)
                assert running.api("GET", "/fleets")["results"]
                assert answer.status in (201, 503), answer
                return answer if answer.status == 503 else None

            with Traffic(running, "/fleets/streams/") as traffic:
                refusal = until(refused, "a change is refused")
                assert f"Free space in {running.data}" in refusal.json["detail"]
                (conductor,) = running.pids("manage.py conductor")
                os.kill(conductor, signal.SIGKILL)
                until(lambda: running.pids("manage.py conductor") not in ([], [conductor]), "a new one")
                at = len(traffic.seen)
                until(lambda: len(traffic.seen) > at + 200, "requests go on")
            assert traffic.failures() == []
            assert running.process.poll() is None, running.said
            for name in ("proxy", "redis", "web", "worker", "beat"):
                assert Path(f"/proc/{before[name]}").exists(), name
            disk.free()
            running.api("POST", "/fleets", {"name": "after", "protocol": "generic"})
            until(lambda: running.api("GET", "/system")["verdict"]["level"] == "calm", "all is well", 90)
        finally:
            running.stop()
            replica.stop()


def fleet_of(replica: Replica) -> dict[str, object]:
    return {
        "name": "streams",
        "protocol": "generic",
        "replicas": [{"name": "a", "url": replica.url}],
    }


STREAMS = 50
STREAM_S = 10.0


@pytest.mark.long
def test_restart_upgrade_and_sigterm_cut_no_stream_of_ten_seconds(tmp_path: Path) -> None:
    """Fifty streams are under way at each of the three; those of before end as those of after do."""
    replica = Replica("a")
    running = Stack(tmp_path, "--no-examples")
    try:
        running.wait_until_up()
        running.api("POST", "/fleets", fleet_of(replica))
        until(lambda: running.eligible("streams") == {"a"}, "the replica is ready", 60)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
            replica.release.clear()
            streams: list[Stream] = []
            for _ in range(STREAMS):
                # One after the other: the replica's queue of connections is short.
                streams.append(Stream(running.proxy_port, "/fleets/streams/stream"))
                until(lambda one=streams[-1]: one.began, "it has begun")
            running.process.send_signal(number)
            ends = time.monotonic() + STREAM_S
            until(lambda at=ends: time.monotonic() > at, "they last ten seconds", STREAM_S + 30)
            replica.release.set()
            assert [one.result() for one in streams] == [b"firstlast"] * STREAMS, signal.Signals(number).name
            if number != signal.SIGTERM:
                until(lambda: settled(running), "all workers are new", 60)
        assert running.process.wait(30) == 0, running.said
        assert running.open_ports() == []
    finally:
        replica.stop()
        running.stop()


def settled(running: Stack) -> bool:
    """No restart and no upgrade is under way, and no old worker is left."""
    try:
        status = exchange(running.admin_port, "GET", "/status").json
    except (OSError, http.client.HTTPException):
        return False  # the admin listener is being handed over
    under_way = status["rolling_restart"]["under_way"] or status["upgrade"]["under_way"]
    return (
        not under_way and not status["leaving_workers"] and all(row["serving"] for row in status["workers"])
    )


class Stream:
    """One response that takes its time, read in a thread."""

    def __init__(self, port: int, path: str) -> None:
        self.began = False
        self._read = b""
        self._thread = threading.Thread(target=self._run, args=(port, path), daemon=True)
        self._thread.start()

    def _run(self, port: int, path: str) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            with suppress(http.client.HTTPException, OSError):
                self._read = response.read(5)
                self.began = True
                self._read += response.read()

    def result(self) -> bytes:
        self._thread.join(60)
        return self._read
