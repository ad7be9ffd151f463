"""A small file system in memory (tmpfs), to be filled: what a full disk does can be tried only on one."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PIECES = (1 << 20, 1 << 12, 1)


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte."""
        with self._filler.open("ab", buffering=0) as file:
            for size in PIECES:
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def mounted(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """A file system of so many MiB on this folder. Where none can be mounted the test is skipped."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no file system can be mounted here: there is no mount")
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here, which needs root: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a process of the test may have a file open for a moment longer.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
