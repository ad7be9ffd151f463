"""The supervisor over small programs: restarts, orderly and hasty stops, and what a killed one leaves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controlplane.supervision import processes, redis_server, state_file
from controlplane.supervision.environment import socket_path
from controlplane.supervision.liveness_checks import is_live
from controlplane.supervision.log_file import LogFile
from controlplane.supervision.running_process import Found
from controlplane.supervision.stopping import stop_in_order, strays
from tests.proxy_process import ROOT, free_port, until
from tests.small_disk import mounted

pytestmark = pytest.mark.any_database

WRITE_PID = """
import os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
print("hello", flush=True)
time.sleep(600)
"""
STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _: open(f"{sys.argv[1]}.{number}", "w").close())
open(sys.argv[1], "w").write(str(os.getpid()))
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.02)
"""


ANSWERING = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
open(sys.argv[1], "w").write(str(os.getpid()))
server.serve_forever()
"""


def exists(pid: int) -> bool:
    return processes.started_at(pid) is not None


class Running:
    """One running supervisor; ``said`` is what it has printed."""

    def __init__(self, folder: Path, *programs: dict[str, Any]) -> None:
        self.pids = folder
        """Where programs write their process ids."""
        (folder / "programs.json").write_text(json.dumps(programs))
        command = [sys.executable, "-m", "tests.controlplane.supervision.running_supervisor", str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))

    def started(self) -> "Running":
        until(lambda: "started" in self.said or self.process.poll() is not None, "it has started")
        assert self.process.poll() is None, self.said
        return self

    def heard(self, words: str) -> str:
        return until(lambda: next((line for line in self.said if words in line), ""), words)

    def pid(self, name: str, other_than: int = 0) -> int:
        """Of a program, once it has written it."""

        def written() -> int:
            with suppress(OSError, ValueError):
                pid = int((self.pids / name).read_text())
                return pid if pid != other_than and exists(pid) else 0
            return 0

        return until(written, f"{name} runs")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ends(self) -> None:
        assert self.process.wait(60) == 0
        self._reader.join(10)
        assert self.said[-1] == "left: []"


def program(
    folder: Path, name: str, code: str = WRITE_PID, group: str = "BASE", **more: Any
) -> dict[str, Any]:
    command = [sys.executable, "-S", "-c", code, str(folder / name)]
    return {"name": name, "command": command, "group": group, **more}


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*programs: dict[str, Any]) -> Running:
        started.append(Running(tmp_path, *programs))
        return started[-1].started()

    yield start
    for one in started:
        one.kill()
    for pid in (*processes.started_on(tmp_path), *processes.redis_in(socket_path(tmp_path).parent)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_what_dies_is_started_again_and_told(tmp_path: Path, supervisor: Callable[..., Running]) -> None:
    running = supervisor(program(tmp_path, "sleeper"))
    first = running.pid("sleeper")
    os.kill(first, signal.SIGKILL)
    running.pid("sleeper", other_than=first)
    told = running.heard("sleeper")
    assert told == "sleeper ended (terminated by SIGKILL) and is restarted; see logs/sleeper.log"
    assert "sleeper ended" in (tmp_path / "supervisor.log").read_text()
    until(lambda: (tmp_path / "sleeper.log").read_text() == "hello\nhello\n", "its lines are in one log")


def test_a_program_that_keeps_ending_is_started_less_and_less_often(
    tmp_path: Path, supervisor: Callable[..., Running]
) -> None:
    running = supervisor(program(tmp_path, "hasty", "import sys; sys.exit(3)"), program(tmp_path, "other"))
    assert "(exit status 3)" in running.heard("hasty ended")
    began = time.monotonic()
    until(lambda: len(running.said) >= 4, "it was tried a few times")
    assert time.monotonic() - began > 0.3
    assert exists(running.pid("other"))


def test_sigterm_ends_group_after_group_and_waits_for_a_program_that_finishes(
    tmp_path: Path, supervisor: Callable[..., Running]
) -> None:
    front = program(tmp_path, "front", STUBBORN, "FRONT", stop_s=600)
    running = supervisor(front, program(tmp_path, "base"))
    pids = running.pid("front"), running.pid("base")
    running.process.terminate()
    until((tmp_path / f"front.{signal.SIGTERM:d}").exists, "it is told")
    running.heard("front finishes its requests, for at most")
    assert all(map(exists, pids)), "what it needs runs as long as it does"
    (tmp_path / "front.go").touch()
    running.ends()
    assert not any(map(exists, pids))
    assert not (tmp_path / state_file.NAME).exists()


def test_ctrl_c_is_hasty_also_while_a_stop_lasts(tmp_path: Path, supervisor: Callable[..., Running]) -> None:
    running = supervisor(program(tmp_path, "front", STUBBORN, "FRONT", stop_s=600))
    pid = running.pid("front")
    running.process.terminate()
    running.heard("front finishes its requests")
    assert exists(pid)
    running.process.send_signal(signal.SIGINT)
    running.ends()
    assert not exists(pid)


def test_signals_are_passed_on(tmp_path: Path, supervisor: Callable[..., Running]) -> None:
    running = supervisor(program(tmp_path, "passed", STUBBORN))
    running.pid("passed")
    running.process.send_signal(signal.SIGUSR1)
    until((tmp_path / f"passed.{signal.SIGUSR1:d}").exists, "it is passed on")
    assert running.process.poll() is None


def test_what_a_killed_one_leaves_goes_on_and_is_adopted(
    tmp_path: Path, supervisor: Callable[..., Running]
) -> None:
    programs = [
        program(tmp_path, "kept", outlives=True),
        program(tmp_path, "other", group="FRONT"),
        program(tmp_path, "changed", outlives=True),
    ]
    first = supervisor(*programs)
    kept, other, changed = (first.pid(name) for name in ("kept", "other", "changed"))
    until(lambda: len(state_file.read(tmp_path).running()) == 3, "it is written down")
    first.kill()
    assert all(map(exists, (kept, other, changed)))
    programs[2]["command"].append("another flag")
    second = supervisor(*programs)
    second.heard("of what it has left, these go on: kept")
    second.pid("other", other_than=other)
    second.pid("changed", other_than=changed)
    assert second.pid("kept") == kept
    assert not any(map(exists, (other, changed)))
    os.kill(kept, signal.SIGKILL)
    second.heard("kept ended (no exit status) and is restarted")
    second.pid("kept", other_than=kept)
    second.process.terminate()
    second.ends()
    assert processes.started_on(tmp_path) == []


def test_a_process_id_that_is_anothers_by_now_is_not_adopted(tmp_path: Path) -> None:
    mine = processes.started_at(os.getpid())
    assert mine is not None
    assert Found(os.getpid(), mine).end() is None
    assert Found(os.getpid(), f"{mine}1").end() is not None
    assert Found(os.getpid(), "").end() is not None
    assert state_file.read(tmp_path).running() == []
    (tmp_path / state_file.NAME).write_text("not what was written")
    assert state_file.read(tmp_path).running() == []


def test_a_long_log_is_rotated_under_the_process_that_writes_it(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "one.log", most_bytes=10)
    output = log.opened()
    assert not isinstance(output, int)
    with output:
        for text in (b"first line\n", b"second line\n", b"third line\n", b"x\n"):
            output.write(text)
            log.rotate()
    assert log.path.read_bytes() == b"x\n"
    assert log.path.with_name("one.log.1").read_bytes() == b"third line\n"
    assert log.path.with_name("one.log.2").read_bytes() == b"second line\n"


def test_where_a_log_cannot_be_made_there_is_none(tmp_path: Path) -> None:
    assert LogFile(tmp_path / "no such folder" / "one.log").opened() == subprocess.DEVNULL
    LogFile(tmp_path / "no such folder" / "one.log").rotate()


@pytest.mark.parametrize("listener", ["metrics_port", "admin_port"])
def test_a_program_that_hangs_as_a_whole_is_killed_and_started_again(
    tmp_path: Path, supervisor: Callable[..., Running], listener: str
) -> None:
    port = free_port()
    code = ANSWERING.replace("PORT", str(port))
    running = supervisor(program(tmp_path, "web", code, **{listener: port}))
    first = running.pid("web")
    until(lambda: (tmp_path / "web.log").read_text().count("/livez") >= 2, "it is asked, and answers")
    os.kill(first, signal.SIGSTOP)
    running.heard("web does not answer and is killed")
    running.heard("web ended (terminated by SIGKILL) and is restarted")
    running.pid("web", other_than=first)
    until(lambda: is_live(port), "its successor answers")


def test_a_redis_that_nobody_can_reach_is_killed_and_started_again(
    tmp_path: Path, supervisor: Callable[..., Running]
) -> None:
    """Its socket file was removed, by what clears /tmp say: it runs, and no new connection reaches it."""
    socket = socket_path(tmp_path)
    socket.parent.mkdir(exist_ok=True)
    command = redis_server.command(redis_server.find(), socket)
    running = supervisor({"name": "redis", "command": command, "group": "BASE", "redis_socket": str(socket)})
    until(lambda: is_live(socket), "it answers")
    [first] = processes.redis_in(socket.parent)
    socket.unlink()
    running.heard("redis does not answer and is killed")
    until(lambda: is_live(socket), "its successor answers")
    [second] = processes.redis_in(socket.parent)
    assert second != first
    running.process.send_signal(signal.SIGTERM)
    running.ends()


def test_a_redis_that_no_state_file_knows_is_found(
    tmp_path: Path, supervisor: Callable[..., Running]
) -> None:
    """It overwrites its environment, by which the other processes are found."""
    socket = socket_path(tmp_path)
    socket.parent.mkdir(exist_ok=True)
    command = redis_server.command(redis_server.find(), socket)
    running = supervisor({"name": "redis", "command": command, "group": "BASE"})
    until(lambda: is_live(socket), "it answers")
    running.kill()
    (tmp_path / state_file.NAME).write_text('{"dam')
    assert state_file.read(tmp_path).running() == []
    left = strays(tmp_path, known=[])
    assert [one.process.pid for one in left] == processes.redis_in(socket.parent)
    stop_in_order(left, lambda: False, print)
    assert processes.redis_in(socket.parent) == []


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    """Neither the supervisor's lines and its state file nor those of a program can be written."""
    with mounted(tmp_path / "disk", mebibytes=1) as disk:
        running = Running(disk.folder, program(tmp_path, "sleeper"), program(tmp_path, "other"))
        running.pids = tmp_path
        try:
            running.started()
            first, other = running.pid("sleeper"), running.pid("other")
            for name in ("sleeper", "other"):  # these lines fit, else the program ends by itself
                until(lambda name=name: (disk.folder / f"{name}.log").read_text() == "hello\n", "its line")
            disk.fill()
            os.kill(first, signal.SIGKILL)
            second = running.pid("sleeper", other_than=first)
            running.heard("sleeper ended")
            running.heard("up.json cannot be written")
            assert running.process.poll() is None
            assert (running.pid("other"), exists(second)) == (other, True)
            disk.free()
            until(
                lambda: {one.pid for one in state_file.read(disk.folder).running()} == {second, other},
                "it is written when there is room",
            )
            running.process.terminate()
            running.ends()
        finally:
            running.kill()
            for pid in processes.started_on(disk.folder):
                os.kill(pid, signal.SIGKILL)
