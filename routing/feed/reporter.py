"""Redis out: once a second, what a worker has counted, to its parent and to the control plane.

Counters are cumulative, so a report that gets lost costs nothing. A worker reports when nothing
happens too: that it was heard is what makes it live.
"""

import asyncio
import os
import random
import socket
import time
from typing import Protocol

from routing.contract.telemetry import KeyCounters, WorkerReport, encode_report
from routing.contract.version import VERSION
from routing.feed.table_feed import TableFeed

EVERY_S = 1.0
SOFTWARE = f"switchyard {VERSION}"


class Places(Protocol):
    """Of clients' connections."""

    most: int
    refused: int
    evicted: int


class Keys(Protocol):
    """Client keys that have been used."""

    def report(self) -> list[KeyCounters]: ...


class Connections(Protocol):
    """What the proxy half counts."""

    @property
    def clients(self) -> int: ...
    @property
    def upstreams(self) -> int: ...
    @property
    def rejected(self) -> int: ...
    @property
    def connection_limit(self) -> Places: ...
    @property
    def key_uses(self) -> Keys: ...


class Shortage(Protocol):
    """What is known of the worker's descriptors."""

    in_use: int
    limit: int

    @property
    def of(self) -> str: ...


class Link(Protocol):
    """Where tables come from and reports go to."""

    @property
    def connected(self) -> bool:
        """Whether newer tables would be heard of."""

    @property
    def confirmed_at(self) -> float | None:
        """Monotonic time when the table was last known to be the newest."""

    async def report(self, report: bytes) -> None:
        """Send one; failures are dealt with there."""


class Reporter:
    """Builds and sends the reports of one worker."""

    def __init__(
        self,
        worker: str,
        incarnation: int,
        feed: TableFeed,
        connections: Connections,
        shortage: Shortage,
        link: Link,
        rng: random.Random,
    ) -> None:
        self.draining = False
        self._worker = worker
        self._incarnation = incarnation
        self._feed = feed
        self._connections = connections
        self._shortage = shortage
        self._link = link
        self._rng = rng
        self._sequence = 0
        self._started = time.monotonic()

    async def run(self) -> None:
        """Report until cancelled, each second, at a moment of the second that differs between workers."""
        await self.send()
        due = time.monotonic() + self._rng.random() * EVERY_S
        while True:
            await asyncio.sleep(due - time.monotonic())
            await self.send()
            due = max(due + EVERY_S, time.monotonic() + EVERY_S / 2)

    async def send(self) -> None:
        """One report."""
        # Encoded before anything is awaited: the counters in it are those that requests change.
        await self._link.report(encode_report(self.build()))

    def build(self) -> WorkerReport:
        self._sequence += 1
        now = time.monotonic()
        known_at = self._link.confirmed_at
        places = self._connections.connection_limit
        return WorkerReport(
            worker=self._worker,
            incarnation=self._incarnation,
            sequence=self._sequence,
            host=socket.gethostname(),
            pid=os.getpid(),
            software=SOFTWARE,
            site=self._feed.table.site,
            manifest=str(self._feed.manifest_version),
            table_age_s=max(0.0, now - (self._started if known_at is None else known_at)),
            redis_ok=self._link.connected,
            draining=self.draining,
            limits_shared_by=self._feed.table.host_share.count,
            uptime_s=now - self._started,
            cpu_s=time.process_time(),
            clients=self._connections.clients,
            upstreams=self._connections.upstreams,
            rejected=self._connections.rejected,
            max_clients=places.most,
            refused_clients=places.refused,
            evicted_clients=places.evicted,
            open_fds=self._shortage.in_use,
            max_fds=self._shortage.limit,
            short_of=self._shortage.of,
            fleets=self._feed.reports(),
            keys=self._connections.key_uses.report(),
            accelerators=self._feed.table.memory.counters(),
            drained_by_hand=self._feed.drained_by_hand(now),
        )
