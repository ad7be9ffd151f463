"""CPU shares of processes: control groups whose bandwidth the kernel limits (CFS quota).

A process may use ``share`` of one core: a quota of 1 ms in each period of ``1 ms / share``, the shortest
quota there is, so that it runs in pieces as small as can be. Both versions of control groups are known; the
folder of the ``cpu`` controller must be writable, which it is for root.

Source: Linux kernel documentation, "CFS Bandwidth Control" and "Control Group v2", ``cpu.max``.
"""

import os
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
QUOTA_US = 1000


class NoControlGroups(Exception):
    """CPU shares cannot be limited here; the message says why."""


class CpuShare:
    """One control group. Its processes must have ended when it is removed."""

    def __init__(self, name: str, share: float, root: Path = ROOT) -> None:
        """``share``: of one core, above 0. Raises NoControlGroups."""
        period_us = round(QUOTA_US / share)
        unified = (root / "cgroup.controllers").exists()
        self._folder = (root if unified else root / "cpu") / f"switchyard-{os.getpid()}-{name}"
        try:
            if unified:
                (root / "cgroup.subtree_control").write_text("+cpu")
            self._folder.mkdir()
            if unified:
                (self._folder / "cpu.max").write_text(f"{QUOTA_US} {period_us}")
            else:
                (self._folder / "cpu.cfs_period_us").write_text(str(period_us))
                (self._folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        except OSError as error:
            raise NoControlGroups(f"{error.filename}: {error.strerror}; run it as root on Linux") from None

    def hold(self, pid: int) -> None:
        """This process, with all its threads, from now on."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        with suppress(OSError):
            self._folder.rmdir()


def cpu_s(pid: int) -> float:
    """CPU seconds that the threads of a process have used, to the nanosecond."""
    used = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):
            used += int((thread / "schedstat").read_text().split()[0])
    return used / 1e9
