"""Signals: drain, deadline, force (cases F17 and F18)."""

import contextlib
import http.client
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proxy_process import LIMIT_S, Proxy, Replica, fleet_file, until


@contextlib.contextmanager
def open_stream(proxy: Proxy, replica: Replica) -> Iterator[http.client.HTTPResponse]:
    """A response whose first piece has come."""
    connection = proxy.client()
    connection.request("GET", "/stream")
    response = connection.getresponse()
    assert response.read(5) == b"first"
    assert replica.streaming.wait(LIMIT_S)
    try:
        yield response
    finally:
        connection.close()


def gone(pids: list[int]) -> bool:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return not any(runs(pid) for pid in pids)


@pytest.fixture
def one_replica(tmp_path: Path, replicas: list[Replica]) -> tuple[Path, Replica]:
    return fleet_file(tmp_path / "fleets.yaml", replicas[:1]), replicas[0]


@pytest.mark.row("F17")
def test_sigterm_lets_a_stream_finish(one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]) -> None:
    file, replica = one_replica
    running = proxy("--fleets", str(file), "--workers", "2", "--min-drain-seconds", "4").ready()
    workers = running.workers()
    with open_stream(running, replica) as stream:
        running.signal()
        until(lambda: running.admin("/readyz")[0] == 503, "readiness is withdrawn")
        assert "draining" in running.admin("/readyz")[1]
        assert running.admin("/livez")[0] == 200

        def asks_to_close() -> bool:
            with contextlib.closing(running.client()) as late:
                late.request("GET", "/")
                answer = late.getresponse()
                assert answer.status == 200
                return answer.getheader("Connection") == "close"

        # The workers hear of the drain a moment after the master.
        until(asks_to_close, "new connections are still served, and asked to close")

        def refuses() -> bool:
            try:
                running.client().connect()
            except (
                ConnectionRefusedError,
                ConnectionResetError,
            ):  # the latter in the moment in which it closes
                return True
            return False

        until(refuses, "new connections are refused after the shortest drain")
        assert running.process.poll() is None
        replica.release.set()
        assert stream.read() == b"last"
    assert running.exit_status() == 0
    assert gone(workers)


def test_a_worker_leaves_signals_to_its_parent(
    one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]
) -> None:
    """As when a service manager signals the whole group, or a person one worker."""
    file, replica = one_replica
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    workers = running.workers()
    with open_stream(running, replica) as stream:
        for pid in workers:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert running.get()[0] == 200
        assert running.workers() == workers
        running.signal()
        until(lambda: running.admin("/readyz")[0] == 503, "readiness is withdrawn")
        replica.release.set()
        assert stream.read() == b"last"
    assert running.exit_status() == 0
    assert gone(workers)


def test_after_the_limit_what_is_in_flight_is_cut_without_a_traceback(
    one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]
) -> None:
    file, replica = one_replica
    running = proxy(
        "--fleets", str(file), "--workers", "2", "--drain-seconds", "0.5", "--min-drain-seconds", "0"
    ).ready()
    with open_stream(running, replica) as stream:
        running.signal()
        with pytest.raises(http.client.IncompleteRead):
            stream.read()
    assert running.exit_status() == 0
    assert "still had requests in flight" in running.log
    assert "Traceback" not in running.log


def test_an_idle_proxy_leaves_at_once(one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]) -> None:
    running = proxy("--fleets", str(one_replica[0]), "--workers", "2", "--min-drain-seconds", "0").ready()
    with contextlib.closing(running.client()) as idle:
        idle.request("GET", "/")
        idle.getresponse().read()
        running.signal(signal.SIGINT)
        assert running.exit_status(5.0) == 0


@pytest.mark.row("F17")
def test_what_does_not_finish_is_cut_at_the_deadline(
    one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]
) -> None:
    file, replica = one_replica
    flags = ("--drain-seconds", "0.5", "--min-drain-seconds", "0")
    running = proxy("--fleets", str(file), "--workers", "1", *flags).ready()
    with open_stream(running, replica) as stream:
        running.signal()
        assert running.exit_status(5.0) == 0
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.read()
    assert "still had requests in flight" in running.log


@pytest.mark.row("F18")
def test_a_second_signal_forces_the_exit(
    one_replica: tuple[Path, Replica], proxy: Callable[..., Proxy]
) -> None:
    file, replica = one_replica
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    workers = running.workers()
    with open_stream(running, replica):
        running.signal()
        until(lambda: "draining" in running.log, "the first signal is handled")
        sent = time.monotonic()
        running.signal()
        assert running.exit_status(5.0) == 1
        # A second is the promise; the machine that runs the tests may be busy.
        assert time.monotonic() - sent < 3.0
    until(lambda: gone(workers), "the workers are gone")
