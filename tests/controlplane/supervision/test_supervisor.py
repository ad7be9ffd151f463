"""The real supervisord with our configuration: it restarts what dies and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controlplane.supervision import supervisord
from controlplane.supervision.processes import descendants
from controlplane.supervision.programs import Group, Program
from controlplane.supervision.restart_events import RestartEvents, in_words

WRITE_PID = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


def until(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.02)


def exists(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


class Supervised:
    """A supervisor over one sleeping program, whose process id is in a file."""

    def __init__(self, folder: Path) -> None:
        self.pid_file = folder / "pid"
        self.log = folder / "supervisor.log"
        command = [sys.executable, "-c", WRITE_PID, str(self.pid_file)]
        configuration = folder / "supervisord.conf"
        supervisord.write_configuration(configuration, [Program("sleeper", command, Group.BASE)], folder)
        self.process = supervisord.start(configuration, folder)

    def child(self) -> int:
        with suppress(OSError, ValueError):
            return int(self.pid_file.read_text())
        return 0


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    started = Supervised(tmp_path)
    until(started.child)
    yield started
    left = [*descendants(started.process.pid), started.process.pid]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    started.process.wait()


def test_what_dies_is_started_again_and_told(supervised: Supervised) -> None:
    first = supervised.child()
    until(lambda: "entered RUNNING" in supervised.log.read_text())
    restarts = RestartEvents(supervised.log)
    restarts.skip_to_end()
    os.kill(first, signal.SIGKILL)
    until(lambda: supervised.child() not in (0, first) and exists(supervised.child()))
    told: list[str] = []
    until(lambda: told.extend(restarts.read()) or told)
    assert told == ["sleeper ended (terminated by SIGKILL) and is restarted; see logs/sleeper.log"]


def test_sigterm_ends_it_with_everything_below(supervised: Supervised) -> None:
    child = supervised.child()
    supervised.process.terminate()
    assert supervised.process.wait(15) == 0
    until(lambda: not exists(child))


def test_a_killed_supervisor_leaves_no_orphan(supervised: Supervised) -> None:
    child = supervised.child()
    supervised.process.kill()
    supervised.process.wait()
    until(lambda: not exists(child), 5)


def test_a_command_may_hold_percent_signs_and_spaces(tmp_path: Path) -> None:
    output = tmp_path / "50% full"
    program = Program("writer", [sys.executable, "-c", f"open({str(output)!r}, 'w')"], Group.FRONT)
    supervisord.write_configuration(tmp_path / "s.conf", [program], tmp_path)
    process = supervisord.start(tmp_path / "s.conf", tmp_path)
    try:
        until(output.exists)
    finally:
        process.terminate()
        process.wait(15)


def test_a_command_whose_parent_has_gone_does_not_start(tmp_path: Path) -> None:
    shim = supervisord.parent_death_signal
    environment = {**os.environ, shim.PARENT: "1"}
    command = [sys.executable, "-S", "-E", shim.__file__, "0", sys.executable, "-c", "print('ran')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("2026-01-01 00:00:00,000 INFO spawned: 'web' with pid 7", None),
        (
            "2026-01-01 00:00:00,000 WARN exited: web (exit status 3; not expected)",
            "web ended (exit status 3)",
        ),
        ("2026-01-01 00:00:00,000 INFO gave up: web entered FATAL state", "web keeps ending"),
    ],
)
def test_the_supervisors_log_in_words(line: str, words: str | None) -> None:
    assert in_words(line) is None if words is None else str(in_words(line)).startswith(words)
