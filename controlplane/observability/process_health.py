"""Liveness and readiness of this process: the words behind ``/livez`` and ``/readyz``."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import redis
from django.db import close_old_connections

from controlplane.datastores.availability import database_state, redis_state
from controlplane.datastores.task_queue import queue_length
from controlplane.observability.process import ProcessRole, ThisProcess, this_process

LOOP_LIMIT_S = 60.0
"""A main loop without an iteration for so long hangs, unless what it waits for is away."""


class ProcessHealth(NamedTuple):
    ok: bool
    checks: Mapping[str, str]
    """What → ``ok``, or what is wrong in words."""


class Liveness:
    """Whether the main loop is running, and none of its work hangs. While the queue or Redis is away a loop
    waits for it, which restarting the process would not cure: that counts as running."""

    def __init__(
        self, process: ThisProcess, waits_for: Callable[[], str], limit_s: float = LOOP_LIMIT_S
    ) -> None:
        self._process = process
        self._waits_for = waits_for
        self._limit_s = limit_s

    def look(self) -> ProcessHealth:
        if words := self._process.hanging():
            return ProcessHealth(False, {"work": words})
        age_s = self._process.loop_heartbeat.age_s
        if age_s <= self._limit_s:
            return ProcessHealth(True, {"loop": "ok"})
        if (words := self._waits_for()) != "ok":
            self._process.loop_heartbeat.record()
            return ProcessHealth(True, {"loop": f"waiting, because Redis is {words}"})
        return ProcessHealth(False, {"loop": f"has not turned for {age_s:.0f} s"})


def queue() -> str:
    """``ok``, or why tasks cannot be sent or taken."""
    try:
        queue_length()
    except redis.RedisError as error:
        return f"away: {error}"
    return "ok"


def started() -> str:
    return "ok" if this_process.ready.is_set() else "starting"


def database() -> str:
    """Asked from a thread of the listener, whose connection must not grow old."""
    try:
        return database_state()
    finally:
        close_old_connections()


NEEDS: dict[ProcessRole, dict[str, Callable[[], str]]] = {
    "web": {"database": database},
    "worker": {"worker": started, "queue": queue, "database": database},
    "beat": {"beat": started, "queue": queue},
    "conductor": {"conductor": started, "redis": redis_state, "database": database},
    "manage": {},
}


def ready(role: ProcessRole) -> ProcessHealth:
    """Whether everything that the process needs is there."""
    checks = {name: check() for name, check in NEEDS[role].items()}
    return ProcessHealth(all(words == "ok" for words in checks.values()), checks)
