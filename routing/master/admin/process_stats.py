"""Process statistics from Linux's /proc: CPU, memory, open files. Other systems have none."""

import os
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessStats(NamedTuple):
    cpu_s: float
    """CPU time since it started."""
    resident_bytes: int
    open_files: int
    started_s: float
    """Unix seconds."""


def read(pid: int) -> ProcessStats | None:
    """``None``: the process has ended, or this is not Linux."""
    folder = Path("/proc") / str(pid)
    try:
        fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        open_files = len(os.listdir(folder / "fd"))
        booted = _boot_time()
    except OSError:
        return None
    return ProcessStats(
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        resident_bytes=int(fields[21]) * _PAGE,
        open_files=open_files,
        started_s=booted + int(fields[19]) / _TICKS,
    )


def _boot_time() -> int:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return 0
