"""What a test run has started goes with it, also when it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import keeper
from tests.proxy_process import ROOT, until

RUN = """
import subprocess, sys, time
from tests import keeper
word = keeper.start()
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
starter = f"import subprocess, time; subprocess.Popen({sleeper!r}, start_new_session=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", starter], start_new_session=True)
print(word, flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    word = process.stdout.readline().strip()
    try:
        until(lambda: len(keeper.started_by(word)) == 2, "a child and its child")
        process.kill()
        yield word
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        for pid in keeper.started_by(word):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_killed_run_leaves_nothing(killed: str) -> None:
    until(lambda: not keeper.started_by(killed), "nothing is left")
    until(lambda: not keepers(killed), "nor the keeper")


def keepers(word: str) -> list[Path]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if word.encode() in file.read_bytes().split(b"\0"):
                found.append(file)
    return found


def test_this_run_is_kept_as_well() -> None:
    assert keepers(os.environ[keeper.NAME])
