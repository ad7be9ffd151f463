"""``kill -9``, and who may notice: requests that were in flight in the killed process, and nobody else."""

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.bench import failures
from tests.faults.load import Result


class Kill(NamedTuple):
    """Monotonic seconds: of the signal, and when the process was seen to be gone, its connections with it."""

    at: float
    gone: float


async def kill(pid: int) -> Kill:
    at = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    while not is_gone(pid):  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.001)
    return Kill(at, time.monotonic())


def is_gone(pid: int) -> bool:
    """Its connections are closed when the last of its threads has ended, and not before: the process itself
    may be a zombie by then."""
    try:
        return all(is_zombie(thread) for thread in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True


def is_zombie(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(") ")[2][0] == "Z"


def cut_by(results: Iterable[Result], kills: Sequence[Kill]) -> list[Result]:
    """Failures of requests that had begun when a process was killed, and whose connection it ended."""
    return [
        one
        for one in failures(results)
        if one.cause.startswith("cut off")
        and any(each.at <= one.ended and one.began <= each.gone for each in kills)
    ]


def others(results: Sequence[Result], cut: Sequence[Result]) -> list[Result]:
    """Failures beside those."""
    ids = {one.id for one in cut}
    return [one for one in failures(results) if one.id not in ids]
