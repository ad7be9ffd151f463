"""A process whose main loop hangs ends by itself; one that only waits for Redis, or was frozen, does not."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.observability import watchdog
from controlplane.observability.process import LoopHeartbeat, ThisProcess
from controlplane.observability.watchdog import Watchdog
from tests.proxy_process import LIMIT_S, ROOT

pytestmark = pytest.mark.any_database

HANGING = """
import sys, threading, time
import django
django.setup()
from controlplane.observability.process import this_process
from controlplane.observability.watchdog import Watchdog
this_process.ready.set()
watchdog = Watchdog(this_process, lambda: sys.argv[1], limit_s=1.0, check_every_s=0.1)
threading.Thread(target=watchdog.run, daemon=True).start()
for _ in range(10):
    this_process.loop_heartbeat.record()
    time.sleep(0.02)
print("it hangs now", flush=True)
time.sleep(600)
"""


def test_a_loop_that_hangs_ends_the_process_and_says_where() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING, "ok"], cwd=ROOT, capture_output=True, text=True, timeout=2 * LIMIT_S
    )
    assert done.returncode == watchdog.EXIT_STATUS
    assert "it hangs now" in done.stdout
    assert "the main loop has not run for" in done.stderr
    assert 'File "<string>"' in done.stderr, "the stack of what hangs"


def test_a_loop_that_waits_for_redis_does_not() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, "away: refused"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "it hangs now\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


class Clocks:
    """The loop's heartbeat at a time of its own, so that nothing is waited for."""

    def __init__(self, **limits: float) -> None:
        self.now = 0.0
        self.process = ThisProcess()
        self.process.loop_heartbeat = LoopHeartbeat(lambda: self.now)
        self.process.ready.set()
        self.watchdog = Watchdog(self.process, lambda: "ok", **limits)

    def pass_by(self, seconds: float, monkeypatch: pytest.MonkeyPatch, beats: bool = False) -> bool:
        """``beats``: the loop runs once, in the middle of that time."""
        self.now += seconds / 2
        if beats:
            self.process.loop_heartbeat.record()
        self.now += seconds / 2
        base = self.watchdog._checked_at
        monkeypatch.setattr(time, "monotonic", lambda: base + seconds)
        try:
            return bool(self.watchdog.look())
        finally:
            monkeypatch.undo()


def test_a_process_that_was_frozen_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(limit_s=60.0, check_every_s=5.0)
    assert not clocks.pass_by(3600.0, monkeypatch), "the watchdog did not run either"
    assert not clocks.pass_by(4.0, monkeypatch, beats=True)
    found = [clocks.pass_by(5.0, monkeypatch) for _ in range(14)]
    assert found.index(True) in (11, 12)


def test_a_start_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = Clocks(limit_s=60.0, check_every_s=5.0)
    clocks.process.ready.clear()
    assert not any(clocks.pass_by(5.0, monkeypatch) for _ in range(50))
    assert any(clocks.pass_by(5.0, monkeypatch) for _ in range(20))


def test_a_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog.notify("WATCHDOG=1")  # nobody listens
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(LIMIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        watchdog.notify("WATCHDOG=1")
        assert listener.recv(64) == b"WATCHDOG=1"
