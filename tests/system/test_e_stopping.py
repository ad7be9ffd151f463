"""The end: Ctrl-C leaves nothing, a second start is refused or quick, a killed supervisor takes all along."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.supervision.processes import descendants
from tests.proxy_process import ROOT, until
from tests.system.stack import Stack, clean_environment, is_running

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
def test_a_killed_supervisor_takes_everything_along(tmp_path: Path) -> None:
    running = Stack(tmp_path, "--no-examples")
    try:
        running.wait_until_up()
        below = descendants(running.process.pid)
        (supervisor,) = running.pids("supervisor.supervisord")
        os.kill(supervisor, signal.SIGKILL)
        assert running.process.wait(STOP_LIMIT_S) == 1
        assert "The supervisor ended unexpectedly" in running.said
        assert [pid for pid in below if is_running(pid)] == []
        assert running.open_ports() == []
    finally:
        running.stop()


@pytest.mark.long
def test_a_killed_up_takes_everything_along(tmp_path: Path) -> None:
    running = Stack(tmp_path, "--no-examples")
    try:
        running.wait_until_up()
        below = descendants(running.process.pid)
        running.process.kill()
        until(lambda: not any(is_running(pid) for pid in below), "nothing is left", 15)
        with (running.data / "up.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        running.stop()
