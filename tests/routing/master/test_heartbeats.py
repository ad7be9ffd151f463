"""Heartbeats between the master and its workers: who hangs is replaced, and nobody else."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.master.worker_process import HEARTBEAT_TIMEOUT_S
from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.master.test_graceful_shutdown import gone, open_stream

pytestmark = pytest.mark.long


@pytest.fixture
def running(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> Proxy:
    file = fleet_file(tmp_path / "fleets.yaml", replicas[:1])
    return proxy("--fleets", str(file), "--workers", "2", "--min-drain-seconds", "0").ready()


def test_a_master_that_was_held_keeps_its_workers(running: Proxy, replicas: list[Replica]) -> None:
    """Their messages lie unread: that they were silent is not known."""
    workers = running.workers()
    with open_stream(running, replicas[0]) as stream:
        running.signal(signal.SIGSTOP)
        time.sleep(HEARTBEAT_TIMEOUT_S + 2.0)
        running.signal(signal.SIGCONT)
        time.sleep(3.0)
        assert running.workers() == workers, running.log
        replicas[0].release.set()
        assert stream.read() == b"last"


def test_a_worker_that_hangs_is_replaced(running: Proxy) -> None:
    hung, other = running.workers()
    os.kill(hung, signal.SIGSTOP)
    until(lambda: gone([hung]), "it is killed", HEARTBEAT_TIMEOUT_S + 30.0)
    until(lambda: len(running.workers()) == 2, "another one serves")
    assert other in running.workers()
    assert "has said nothing for 15 s and is killed" in running.log
