"""Orderly stop: programs end group by group, and the proxy finishes its requests (graceful shutdown)."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from controlplane.supervision import processes
from controlplane.supervision.environment import socket_path
from controlplane.supervision.programs import DRAIN_S, Group
from controlplane.supervision.running_process import Found, RunningProcess

HASTY_S = 5.0
"""After Ctrl-C: how long what has begun may go on."""
REDIS_STOP_S = 2.0
TELL_AFTER_S = 3.0
KILLED_WITHIN_S = 5.0
POLL_EVERY_S = 0.05


class Stoppable(NamedTuple):
    name: str
    process: RunningProcess
    group: int
    stop_s: float
    """Seconds between SIGTERM and SIGKILL, where nobody is in haste."""


def strays(data: Path, known: Iterable[int]) -> list[Stoppable]:
    """What was started on this data folder and is below none of the processes ``known``: workers of a proxy
    that was killed, which finish their requests when they are told to end, and a Redis that nobody knows."""
    below = {os.getpid()}
    for pid in known:
        below |= {pid, *processes.descendants(pid)}
    found = [(pid, Group.FRONT, DRAIN_S + 10.0) for pid in processes.started_on(data)]
    found += [(pid, Group.BASE, REDIS_STOP_S) for pid in processes.redis_in(socket_path(data).parent)]
    return [
        Stoppable(f"process {pid}", Found(pid, started), int(group), stop_s)
        for pid, group, stop_s in found
        if pid not in below and (started := processes.started_at(pid)) is not None
    ]


def stop_in_order(
    programs: Sequence[Stoppable], is_hasty: Callable[[], bool], say: Callable[[str], None]
) -> None:
    """Stop these, the highest group first, the next once all of that one are gone. ``is_hasty`` is asked
    again and again."""
    for group in sorted({one.group for one in programs}, reverse=True):
        _stop([one for one in programs if one.group == group], is_hasty, say)


def _stop(programs: Sequence[Stoppable], is_hasty: Callable[[], bool], say: Callable[[str], None]) -> None:
    began = time.monotonic()
    haste: float | None = None
    notified = False
    for one in programs:
        one.process.send(signal.SIGTERM)
    while running := [one for one in programs if one.process.end() is None]:
        now = time.monotonic()
        if haste is None and is_hasty():
            haste = now
        ends = [_end(one, began, haste) for one in running]
        if now > max(ends) + KILLED_WITHIN_S:
            return
        for one, end in zip(running, ends, strict=True):
            if now > end:
                processes.kill_tree(one.process.pid)
        if not notified and haste is None and now > began + TELL_AFTER_S and max(ends) > now + TELL_AFTER_S:
            notified = True
            names = ", ".join(one.name for one in running)
            say(f"{names} finishes its requests, for at most {max(ends) - now:.0f} s; Ctrl-C cuts them")
        time.sleep(POLL_EVERY_S)


def _end(one: Stoppable, began: float, haste: float | None) -> float:
    """When it is killed."""
    end = began + one.stop_s
    return end if haste is None else min(end, haste + HASTY_S)
