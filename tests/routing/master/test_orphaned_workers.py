"""A master is killed: its workers serve on, and the next one takes over from them without a lost request."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.ipc import listener_handover
from routing.master import orphaned_workers
from routing.master.listeners import BindAddress, is_taken, open_listener, resolved
from tests.proxy_process import Proxy, Replica, fleet_file, free_port, until
from tests.routing.master.test_graceful_shutdown import gone, open_stream
from tests.routing.master.traffic import Traffic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers outlive their master on Linux only")

Start = Callable[..., Proxy]


@pytest.fixture
def start(tmp_path: Path, replicas: list[Replica], proxy: Start) -> Callable[[], Proxy]:
    """Starts a proxy, each time with the same command line."""
    file = fleet_file(tmp_path / "fleets.yaml", replicas[:1])
    listen = f"127.0.0.1:{free_port()}"
    flags = ("--fleets", str(file), "--workers", "2", "--min-drain-seconds", "0")
    return lambda: proxy(*flags, listen=listen)


def test_a_killed_master_costs_no_request(start: Callable[[], Proxy]) -> None:
    first = start().ready()
    old = first.workers()
    assert len(old) == 2
    with Traffic(first) as traffic:
        first.kill()
        traffic.more(10)
        assert not gone(old)
        second = start().ready()
        until(lambda: gone(old), "the old workers have finished")
        traffic.more(10)
    assert traffic.failures == []
    assert len(second.workers()) == 2
    assert "2 workers of a master that was killed serve until these do" in second.log
    assert "finishes its requests" in second.log


def test_it_can_be_killed_again_and_again(start: Callable[[], Proxy]) -> None:
    """Also before the workers of the one before have ended: listeners do not get more, nor fewer."""
    running = start().ready()
    with Traffic(running) as traffic:
        for _ in range(3):
            running.kill()
            running = start().ready()
            assert len(running.workers()) == 2
        traffic.more()
    assert traffic.failures == []
    until(lambda: len(running.processes()) == 3, "a master and two workers are left")


def test_a_stream_goes_on_through_the_change(start: Callable[[], Proxy], replicas: list[Replica]) -> None:
    first = start().ready()
    old = first.workers()
    with open_stream(first, replicas[0]) as stream:
        first.kill()
        second = start().ready()
        until(lambda: second.log.count("finishes its requests") >= 2, "the old ones are told")
        assert not gone(old), "the one with the stream is there"
        replicas[0].release.set()
        assert stream.read() == b"last"
    until(lambda: gone(old), "both have finished")
    assert second.get()[0] == 200


def test_a_proxy_that_is_stopped_at_once_stops_those_it_has_found(start: Callable[[], Proxy]) -> None:
    first = start().ready()
    old = first.workers()
    first.kill()
    second = start()
    until(lambda: "of a master that was killed" in second.log, "it has found them")
    second.signal()
    assert second.exit_status() == 0
    until(lambda: gone(old), "they have ended too")


def test_without_a_master_sigterm_drains_a_worker(
    start: Callable[[], Proxy], replicas: list[Replica]
) -> None:
    first = start().ready()
    port, old = first.port, first.workers()
    with open_stream(first, replicas[0]) as stream:
        first.kill()
        until(lambda: len(listener_handover.control_sockets(("127.0.0.1", port))) == 2, "both have noticed")
        for pid in old:
            os.kill(pid, signal.SIGTERM)
        until(lambda: not listener_handover.control_sockets(("127.0.0.1", port)), "both are told")
        assert not gone(old)
        replicas[0].release.set()
        assert stream.read() == b"last"
    until(lambda: gone(old), "they have ended")
    assert not is_taken(BindAddress("127.0.0.1", port))


def test_a_worker_that_drains_finishes_without_its_master(
    start: Callable[[], Proxy], replicas: list[Replica]
) -> None:
    first = start().ready()
    old = first.workers()
    with open_stream(first, replicas[0]) as stream:
        first.signal()
        until(lambda: "draining for at most" in first.log, "it drains")
        first.kill()
        replicas[0].release.set()
        assert stream.read() == b"last"
    until(lambda: gone(old), "nothing is left")


def test_a_worker_that_is_stuck_is_killed(
    start: Callable[[], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphaned_workers, "ANSWER_LIMIT_S", 0.5)
    first = start().ready()
    port, old = first.port, first.workers()
    first.kill()
    until(lambda: len(listener_handover.control_sockets(("127.0.0.1", port))) == 2, "both have noticed")
    os.kill(old[0], signal.SIGSTOP)
    found = orphaned_workers.find(BindAddress("127.0.0.1", port))
    assert len(found) == 1
    until(lambda: gone(old[:1]), "it is killed")
    found.drain([], followed=False)
    until(lambda: gone(old[1:]), "the other has finished")


def test_a_port_of_another_program_is_no_orphans(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = BindAddress("127.0.0.1", other.getsockname()[1])
        assert is_taken(address)
        assert len(orphaned_workers.find(address, wait=True)) == 0
    assert not is_taken(address)
    assert len(orphaned_workers.find(BindAddress("127.0.0.1", 0), wait=True)) == 0


def test_an_address_is_named_as_its_listener_names_it() -> None:
    listener = open_listener(BindAddress("localhost", free_port()))
    with listener:
        here = listener.getsockname()[:2]
        assert resolved(BindAddress("localhost", here[1])) == here
        with listener_handover.open_control_socket(here), pytest.raises(OSError, match="in use"):
            listener_handover.open_control_socket(here)
