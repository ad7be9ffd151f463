"""A master takes another's place while requests come without a pause: none is lost, nothing forgotten."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proxy_process import LIMIT_S, ROOT, Proxy, Replica, fleet_file, until
from tests.routing.master.test_graceful_shutdown import gone, open_stream
from tests.routing.master.traffic import Traffic


@pytest.fixture
def file(tmp_path: Path, replicas: list[Replica]) -> str:
    return str(fleet_file(tmp_path / "fleets.yaml", replicas))


def master_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def successor(proxy: Proxy, old: list[int]) -> int:
    """Wait until other workers serve; their master."""

    def taken_over() -> list[int]:
        now = proxy.workers()
        return now if len(now) == len(old) and not set(now) & set(old) else []

    return master_of(until(taken_over, "another master has taken over")[0])


def test_an_upgrade_under_load_loses_no_request(file: str, proxy: Callable[..., Proxy]) -> None:
    running = proxy("--fleets", file, "--workers", "2", "--min-drain-seconds", "0").ready()
    old = running.workers()
    assert running.admin("/fleets/echo/replicas/a/drain", "POST")[0] == 200
    with Traffic(running) as traffic:
        status, said = running.admin("/upgrade", "POST")
        assert (status, json.loads(said)["upgrade"]["under_way"]) == (202, True)
        for path in ("/upgrade", "/restart"):
            status, said = running.admin(path, "POST")
            assert (status, "an upgrade is under way" in said) == (409, True)
        new = successor(running, old)
        assert new != running.process.pid
        traffic.more()
        until(lambda: gone(old), "the old workers have finished")
        traffic.more()
    assert traffic.failures == []
    assert running.admin("/readyz")[0] == 200
    (drained,) = running.status()["emergency_drains"]
    assert (drained["replica"], 3000 < drained["expires_in_s"] <= 3600) == ("a", True)
    assert {running.get() for _ in range(4)} == {(200, "b")}
    # The first process stands for the proxy: what it is told is for the new one.
    workers = running.workers()
    running.signal()
    assert running.exit_status() == 0
    assert gone([new, *workers])


def test_one_that_does_not_become_ready_changes_nothing(file: str, proxy: Callable[..., Proxy]) -> None:
    running = proxy("--fleets", file, "--workers", "1").ready()
    old = running.workers()
    Path(file).write_text("version: 1\nfleets: nonsense\n")
    running.signal(signal.SIGUSR2)
    upgrade = until(lambda: (now := running.status()["upgrade"]).get("last") and now, "it has failed")
    assert upgrade["last"] == "failed"
    assert "exited with status 2 before it was ready" in upgrade["why"]
    assert "the upgrade has failed, and this master goes on" in running.log
    assert running.workers() == old
    assert running.get()[0] == 200
    assert "\nswitchyard_upgrade_failures_total 1\n" in running.admin("/metrics")[1]


def test_the_old_one_finishes_its_stream_and_without_it_only_workers_are_left(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = str(fleet_file(tmp_path / "fleets.yaml", replicas[:1]))
    running = proxy("--fleets", file, "--workers", "1").ready()
    old = running.workers()
    with open_stream(running, replicas[0]) as stream:
        running.signal(signal.SIGUSR2)
        successor(running, old)
        assert not gone(old)
        replicas[0].release.set()
        assert stream.read() == b"last"
    until(lambda: gone(old), "the old worker has finished")
    second = running.workers()
    running.signal(signal.SIGUSR2)
    third = successor(running, second)
    last, port = running.workers(), running.port
    until(lambda: gone(second), "the second one has finished")
    running.kill()
    until(lambda: gone([third]), "whoever started the first process starts the next master")
    assert not gone(last)
    assert asked(port, "/") == 200


def test_a_stream_of_the_old_one_outlives_a_killed_successor(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = str(fleet_file(tmp_path / "fleets.yaml", replicas[:1]))
    running = proxy("--fleets", file, "--workers", "1").ready()
    old = running.workers()
    with open_stream(running, replicas[0]) as stream:
        running.signal(signal.SIGUSR2)
        new = successor(running, old)
        last, port = running.workers(), running.port
        os.kill(new, signal.SIGKILL)
        assert running.exit_status() == 75
        assert not gone(old)
        replicas[0].release.set()
        assert stream.read() == b"last"
    until(lambda: gone(old), "the old worker has finished")
    assert not gone(last)
    assert asked(port, "/") == 200


def test_a_stream_of_the_old_one_is_waited_for_when_the_proxy_is_stopped(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = str(fleet_file(tmp_path / "fleets.yaml", replicas[:1]))
    running = proxy("--fleets", file, "--workers", "1", "--min-drain-seconds", "0").ready()
    old = running.workers()
    with open_stream(running, replicas[0]) as stream:
        running.signal(signal.SIGUSR2)
        new = successor(running, old)
        running.signal()
        until(lambda: gone([new]), "the new master has nothing to finish")
        assert not gone(old)
        replicas[0].release.set()
        assert stream.read() == b"last"
    assert running.exit_status() == 0
    assert gone(old)


def test_who_is_told_to_stop_stops_the_one_that_was_to_follow(file: str, proxy: Callable[..., Proxy]) -> None:
    running = proxy("--fleets", file, "--workers", "1", "--min-drain-seconds", "0").ready()
    running.signal(signal.SIGUSR2)
    pid = until(lambda: running.status()["upgrade"].get("successor"), "it is on its way")
    running.signal()
    assert running.exit_status() == 0
    assert gone([pid])


def asked(port: int, path: str) -> int:
    """The status of an answer; 0: none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    with contextlib.closing(connection), contextlib.suppress(ConnectionError):
        connection.request("GET", path)
        return connection.getresponse().status
    return 0


@contextlib.contextmanager
def service_manager(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(20)
        yield listener


def said(listener: socket.socket) -> bytes:
    """The next message that is not said again and again."""
    return until(lambda: listener.recv(100).removeprefix(b"WATCHDOG=1"), "something is said")


def test_a_service_manager_is_told_who_the_main_process_is(
    tmp_path: Path, file: str, proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_manager(tmp_path / "notify") as listener:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        running = proxy("--fleets", file, "--workers", "1", "--min-drain-seconds", "0")
        assert said(listener) == b"READY=1"
        until(lambda: listener.recv(100) == b"WATCHDOG=1", "its main loop runs")
        old, port = running.ready().workers(), running.port
        running.signal(signal.SIGUSR2)
        main = re.fullmatch(rb"MAINPID=(\d+)", said(listener))
        assert main
        new = int(main[1])
        try:
            assert said(listener) == b"READY=1"
            assert successor(running, old) == new
            assert running.exit_status() == 0
            assert asked(port, "/") == 200
        finally:
            os.kill(new, signal.SIGTERM)
            assert said(listener) == b"STOPPING=1"
            until(lambda: gone([new]), "it is gone")


def test_a_master_that_leaves_finishes_the_admin_requests_that_it_has_accepted(
    tmp_path: Path, file: str, proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_manager(tmp_path / "notify") as listener:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        running = proxy("--fleets", file, "--workers", "1", "--min-drain-seconds", "0").ready()
        assert said(listener) == b"READY=1"
        with socket.create_connection(("127.0.0.1", running.admin_port), timeout=LIMIT_S) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\n")
            time.sleep(0.1)  # until it is accepted: its successor has the same listener
            running.signal(signal.SIGUSR2)
            main = re.fullmatch(rb"MAINPID=(\d+)", said(listener))
            assert main
            try:
                time.sleep(0.5)  # nothing else keeps it
                client.sendall(b"Host: 127.0.0.1\r\n\r\n")
                assert client.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
                assert running.exit_status() == 0
            finally:
                os.kill(int(main[1]), signal.SIGTERM)
                until(lambda: gone([int(main[1])]), "it is gone")


STARTED_WITH_SOCKETS = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "routing", *sys.argv[1:]])
"""


def test_sockets_of_a_service_manager_are_served(tmp_path: Path, file: str) -> None:
    """As systemd gives them: from descriptor 3 on, one for clients, which all workers accept from."""
    with socket.create_server(("127.0.0.1", 0)) as clients, socket.create_server(("127.0.0.1", 0)) as admin:

        def put_in_place() -> None:
            given = [os.dup(each.fileno()) for each in (clients, admin)]
            for number, fd in enumerate(given, start=3):
                os.dup2(fd, number)

        arguments = ["--fleets", file, "--workers", "2", "--min-drain-seconds", "0"]
        with (tmp_path / "proxy.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", STARTED_WITH_SOCKETS, *arguments],
                cwd=ROOT,
                env={**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "proxy:admin"},
                preexec_fn=put_in_place,
                close_fds=False,
                stderr=log,
            )
        try:
            until(lambda: asked(admin.getsockname()[1], "/readyz") == 200, "it is ready")
            assert asked(clients.getsockname()[1], "/") == 200
        finally:
            process.terminate()
            assert process.wait(20) == 0
    assert "listening on 127.0.0.1" in (tmp_path / "proxy.log").read_text()
