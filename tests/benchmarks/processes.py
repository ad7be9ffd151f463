"""Processes of a benchmark: started on a CPU of their own, measured by what /proc says, ended in any case."""

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from routing import compiled

_CLOCK_OF_PROCESS = 2
"""Linux's CPUCLOCK_SCHED: what all threads of a process have run, also of those that have ended."""


def circumstances() -> str:
    """Of a figure: machine, Python, and how the workers of our proxy run."""
    how = "compiled" if compiled.found() else "from source"
    return (
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, workers run {how}"
    )


@contextmanager
def running(
    command: list[str],
    port: int,
    cpu: int | None,
    *,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    limit_s: float = 15,
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, pinned to a CPU, from the moment its port answers; ended afterwards."""
    with open(log or os.devnull, "wb") as said:
        process = subprocess.Popen(
            command,
            stdout=None if log is None else said,
            stderr=said,
            env=None if environment is None else {**os.environ, **environment},
            preexec_fn=None if cpu is None else lambda: pin(cpu),
        )
    try:
        until = time.monotonic() + limit_s
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"{command[0]} did not start: {' '.join(command)}\n{last_words(log)}")
                time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def last_words(log: Path | None) -> str:
    return "" if log is None else log.read_text(errors="replace")[-2000:]


def pin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def cpu_seconds(pids: list[int]) -> float:
    """User and system time that they have used. As ``clock_getcpuclockid(3)``: to the nanosecond, where /proc
    counts ticks of 10 ms."""
    return sum(time.clock_gettime(~pid << 3 | _CLOCK_OF_PROCESS) for pid in pids)


def memory_bytes(pids: list[int]) -> int:
    """Their proportional share of resident memory."""
    kilobytes = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes * 1024


def resident_bytes(pid: int) -> int:
    """Its resident memory, all that it shares with other processes included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def two_cpus() -> tuple[int | None, int | None]:
    """One for the proxy, and one for all else; neither is set where there is only one."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[0], cpus[1]) if len(cpus) > 1 else (None, None)
