"""Log file of one program, which writes to it itself; it is rotated by copying and truncating (copytruncate).

The program holds the file open, so that its lines are kept whatever becomes of the process that started it.
"""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

MOST_BYTES = 5_000_000
OLD_LOGS = 2


class LogFile:
    """``path`` and, beside it, ``path.1`` and ``path.2``, the older ones."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes

    def opened(self) -> "IO[bytes] | int":
        """For the output of a process. A file that cannot be made (the disk is full) is done without."""
        try:
            return self.path.open("ab", buffering=0)
        except OSError:
            return subprocess.DEVNULL

    def rotate(self) -> None:
        """Once the file is too long. Raises nothing: where the copy cannot be written, the lines are dropped,
        because a file that grows on would fill the disk."""
        with suppress(OSError):
            if self.path.stat().st_size <= self._most_bytes:
                return
            for number in range(OLD_LOGS, 1, -1):
                with suppress(OSError):
                    self._old(number - 1).replace(self._old(number))
            try:
                shutil.copyfile(self.path, self._old(1))
            except OSError:
                self._old(1).unlink(missing_ok=True)
            finally:
                with self.path.open("r+b") as log:
                    log.truncate(0)

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
