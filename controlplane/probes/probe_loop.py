"""Probe loop: the one event loop of this process that sends probes, in a thread of its own (uvloop).

It outlives batches, because connections are kept between probes. Whoever takes the results may block (on a
database, say) without the clock of a single probe running on meanwhile.
"""

import asyncio
import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any

import uvloop

from controlplane.probes.stall_meter import StallMeter

MOST_AT_ONCE = 4000
"""Probes under way; those beyond wait. Fewer where the process may have few descriptors."""
SWITCH_S = 0.0005
"""After so long another thread of this process lets the loop run (Python's own: ten times that). The loop
gives way with every read and write, so a thread that computes would cost it this much for each."""
RESERVED_DESCRIPTORS = 200
"""For databases, Redis, logs and name lookups."""


Work = Callable[[], Coroutine[Any, Any, None]]


class ProbeLoop:
    """Started with its first use; ends with the process."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self.meter = StallMeter(self.loop)
        self.most_at_once, self.most_kept = shares(_descriptors())
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: deque[Work] = deque()
        sys.setswitchinterval(SWITCH_S)
        # A thread left in a name lookup that never ends must not keep the process from exiting.
        threading.Thread(target=self._run, name="probes", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.meter.start()
        self.loop.run_forever()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """On the loop; from any thread."""
        self.loop.call_soon_threadsafe(function, *arguments)

    def begin(self, work: Work) -> None:
        """As soon as fewer than ``most_at_once`` are under way. On the loop only."""
        if len(self._tasks) >= self.most_at_once:
            self._waiting.append(work)
        else:
            self._start(work)

    def _start(self, work: Work) -> None:
        task = self.loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if self._waiting and len(self._tasks) < self.most_at_once:
            self._start(self._waiting.popleft())


@lru_cache(maxsize=1)
def probe_loop() -> ProbeLoop:
    """The process's. One that forks first and probes then gets its own."""
    return ProbeLoop()


def shares(descriptors: int) -> tuple[int, int]:
    """How many probes at once, and how many connections kept between them, with so many descriptors."""
    free = max(descriptors - RESERVED_DESCRIPTORS, 50)
    at_once = min(MOST_AT_ONCE, free // 3)
    # A probe may read a page of load beside it, which takes a second connection.
    return at_once, max(free - 2 * at_once, 0)


def _descriptors() -> int:
    """As many as the system allows this process, taken if need be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
        except (OSError, ValueError):
            return soft
    return soft
