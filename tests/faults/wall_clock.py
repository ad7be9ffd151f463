"""Steps of the wall clock, for chosen processes only: libfaketime, which is preloaded into them, reads how
far to be off from a file that the test writes. Monotonic clocks go on as they are, as they do where a
machine's clock is set."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIBRARY = "libfaketime.so.1"
PRELOADED = Path(__file__).parent / "preloaded"
HOUR_S = 3600
DAY_S = 24 * HOUR_S
STEPS = (HOUR_S, 0, -HOUR_S, DAY_S, -DAY_S, 0)
"""Seconds by which the clock is off, one after the other: forward and backward by an hour and by up to two
days."""


class WallClock:
    """``environment``: of the processes whose clock it is."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.off_by_s = 0
        self.step(0)
        self.environment = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(PRELOADED), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            ),
        }
        self.step(DAY_S)
        said = subprocess.check_output(
            [sys.executable, "-c", "import time; time.sleep(0.01); print(time.time())"],
            env={**os.environ, **self.environment},
        )
        assert self.shows(float(said)), f"{LIBRARY} does not step the clock: {said!r}"
        self.step(0)

    def step(self, off_by_s: int) -> None:
        """From now on, for processes that run already too."""
        self.off_by_s = off_by_s
        written = self._file.with_suffix(".new")
        written.write_text(f"{off_by_s:+d}s\n")
        written.replace(self._file)

    def shows(self, told: float, within_s: float = 60.0) -> bool:
        """Whether this time (seconds of the epoch) is this clock's."""
        return abs(told - time.time() - self.off_by_s) < within_s


def library() -> Path:
    """Where libfaketime is. The test fails without it, and says the command that installs it."""
    folders = [*Path("/usr/lib").glob("*/faketime"), Path("/usr/lib64/faketime"), Path("/usr/lib/faketime")]
    for folder in folders:
        if (found := folder / LIBRARY).exists():
            return found
    pytest.fail(f"no {LIBRARY} here; this enables the test: apt-get install faketime")


def named(off_by_s: int) -> str:
    if off_by_s == 0:
        return "the clock is right again"
    days, hours = divmod(abs(off_by_s), DAY_S)
    amount = f"{days} day" if days else f"{hours // HOUR_S} hour"
    return f"the clock is {amount} {'fast' if off_by_s > 0 else 'slow'}"
