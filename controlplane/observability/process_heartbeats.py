"""Heartbeats of processes: once a second each process of the control plane says in Redis that it is there.

For the system page alone. Those of conductors are in
:mod:`controlplane.observability.conductor_heartbeats`; those of proxies are their reports.
"""

import atexit
import logging
import resource
import threading
import time

import msgspec
import redis

from controlplane.datastores.redis import client as redis_client
from controlplane.datastores.redis import short_timeout_client
from controlplane.observability.heartbeats import Heartbeats
from controlplane.observability.process import this_process
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.redis_keys import REPORT
from routing.contract.version import VERSION

NAMES = "sy:processes"
"""Sorted set: process name → Redis time of its last heartbeat."""

BODIES = "sy:processes:signs"
"""Hash: process name → JSON of its ProcessHeartbeat."""

EVERY_S = 1.0
LIVE_S = 5.0
FORGET_S = 300.0
"""A process that crashed is shown as gone for this long."""

logger = logging.getLogger(__name__)


class ProcessHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a process says of itself."""

    name: str
    """``role/host/pid``."""
    role: str
    software: str
    uptime_s: float
    loop_age_s: float
    """Since the last iteration of its main loop, when this was written."""
    cpu_percent: float
    """Of one CPU, over the last second."""
    memory_bytes: int
    """Most that was ever resident."""
    clock_ahead_s: float = 0.0
    """Of its host's clock, before that of Redis's host; negative: behind it."""


class LiveProcess(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat: ProcessHeartbeat
    age_s: float
    """Since it was written, by the clock of Redis."""


def read(client: "redis.Redis") -> list[LiveProcess]:
    """All heard within FORGET_S, by name. Raises redis.RedisError."""
    found = []
    for stored in Heartbeats(client, NAMES, BODIES):
        if stored.age_s <= FORGET_S and stored.body:
            try:
                heartbeat = msgspec.json.decode(stored.body, type=ProcessHeartbeat)
            except DECODE_ERRORS:
                continue  # of another version of the software
            found.append(LiveProcess(heartbeat=heartbeat, age_s=stored.age_s))
    return sorted(found, key=lambda seen: seen.heartbeat.name)


def remove(client: "redis.Redis", name: str) -> None:
    """A process that ends says so, in one round trip. Raises redis.RedisError."""
    pipeline = client.pipeline(transaction=False)
    pipeline.zrem(NAMES, name)
    pipeline.hdel(BODIES, name)
    pipeline.execute()


def start() -> None:
    """Send heartbeats until this process ends."""
    threading.Thread(target=_HeartbeatSender().run, name="heartbeats", daemon=True).start()
    atexit.register(_remove_own)


def _remove_own() -> None:
    try:
        with short_timeout_client() as client:
            remove(client, this_process.name)
    except redis.RedisError:
        logger.debug("last heartbeat not removed: Redis does not answer")


class _HeartbeatSender:
    def __init__(self) -> None:
        self._cpu_s = time.process_time()
        self._at = time.monotonic()
        self._away = False

    def run(self) -> None:
        while True:
            self._send()
            time.sleep(EVERY_S)

    def _send(self) -> None:
        try:
            client = redis_client()
            heartbeat = self._heartbeat(clock_ahead_s(client))
            client.eval(REPORT, 2, NAMES, BODIES, heartbeat.name, msgspec.json.encode(heartbeat).decode())
            if int(heartbeat.uptime_s) % 60 == 0:
                forget_old(client)
        except redis.RedisError as error:
            if not self._away:
                logger.info("no heartbeats: Redis does not answer: %s", error)
            self._away = True
        else:
            self._away = False

    def _heartbeat(self, ahead_s: float) -> ProcessHeartbeat:
        now, cpu_s = time.monotonic(), time.process_time()
        percent = 100 * (cpu_s - self._cpu_s) / max(now - self._at, 0.05)
        self._cpu_s, self._at = cpu_s, now
        return ProcessHeartbeat(
            name=this_process.name,
            role=this_process.role,
            software=f"switchyard {VERSION}",
            uptime_s=round(this_process.uptime_s, 1),
            loop_age_s=round(this_process.loop_heartbeat.age_s, 2),
            cpu_percent=round(percent, 1),
            memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            clock_ahead_s=round(ahead_s, 1),
        )


def clock_ahead_s(client: "redis.Redis") -> float:
    """Of this host's clock before that of Redis's, in one round trip. Raises redis.RedisError."""
    before = time.time()
    seconds, microseconds = client.time()
    return (before + time.time()) / 2 - (seconds + microseconds / 1e6)


def forget_old(client: "redis.Redis") -> None:
    """Delete what crashed processes have left. Raises redis.RedisError."""
    oldest = client.time()[0] - FORGET_S
    for name in client.zrangebyscore(NAMES, "-inf", oldest):
        remove(client, name.decode() if isinstance(name, bytes) else str(name))
