"""Running tasks, and which of them hang: Celery's time limits end nothing in a pool of threads.

A thread cannot be ended from outside. So a task that runs beyond its hard time limit makes its worker not
live (``/livez``), and the watchdog ends the worker, to be started anew. Of the tasks that end with it a tick
and a batch of probes are acknowledged late: their messages come again after ``visibility_timeout``, and are
dropped where they have expired by then; either way what was due is still due, and the next tick hands it out.
Forgetting what is old is acknowledged early and left out; the next hour's run finds the same rows.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

logger = logging.getLogger(__name__)


class RunningTask(NamedTuple):
    name: str
    began: float
    soft_limit_s: float
    """Beyond it the log says so."""
    limit_s: float
    """Beyond it the task hangs."""


class RunningTasks:
    """Of this process. Safe in threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[str, RunningTask] = {}
        self._reported: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, task_id: str, name: str, soft_limit_s: float, limit_s: float) -> None:
        with self._lock:
            self._running[task_id] = RunningTask(name, self._clock(), soft_limit_s, limit_s)

    def end(self, task_id: str) -> float | None:
        """Seconds since it began; None: it was not begun here."""
        with self._lock:
            task = self._running.pop(task_id, None)
            late = task_id in self._reported
            self._reported.discard(task_id)
        if task is None:
            return None
        took_s = self._clock() - task.began
        if late:
            logger.warning("the task %s has ended after all, after %.0f s", task.name, took_s)
        return took_s

    def look(self) -> None:
        """Log tasks that have passed their soft limit, each once."""
        for task_id, task in self._snapshot().items():
            age_s = self._clock() - task.began
            if age_s > task.soft_limit_s and task_id not in self._reported:
                with self._lock:
                    self._reported.add(task_id)
                logger.error(
                    "the task %s has run for %.0f s: from %.0f s on it counts as hanging",
                    *(task.name, age_s, task.limit_s),
                )

    def hanging(self) -> str:
        """What hangs, in words; empty: nothing."""
        now = self._clock()
        over = [task for task in self._snapshot().values() if now - task.began > task.limit_s]
        if not over:
            return ""
        oldest = min(over, key=lambda task: task.began)
        more = f", and {len(over) - 1} more" if len(over) > 1 else ""
        return f"{oldest.name} has run for {now - oldest.began:.0f} s{more}"

    def _snapshot(self) -> dict[str, RunningTask]:
        with self._lock:
            return dict(self._running)


running_tasks = RunningTasks()
