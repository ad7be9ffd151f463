"""Telemetry reporter (stats sink): sends a worker's counters once a second to its master and control plane.

Counters are cumulative, so a lost report costs nothing. A worker also reports when nothing happens: the
report is its heartbeat.
"""

import asyncio
import os
import random
import socket
import time
from typing import Protocol

from routing import compiled
from routing.contract.telemetry import FleetCounters, KeyCounters, WorkerReport, encode_report
from routing.contract.version import VERSION
from routing.proxy import Proxy
from routing.shared.prefix_news import PrefixNews
from routing.worker.config.fleet_reports import fleet_reports
from routing.worker.config.kept_counters import KeptCounters
from routing.worker.config.key_reports import key_reports
from routing.worker.config.slices import in_slices
from routing.worker.config.table_applier import TableApplier
from routing.worker.overload_monitor import OverloadMonitor

EVERY_S = 1.0
SOFTWARE = f"switchyard {VERSION}"
_NO_NEWS = PrefixNews()


class ReportLink(Protocol):
    """The source of tables and destination of reports. The worker, which lies above this module, implements
    it."""

    @property
    def connected(self) -> bool:
        """Whether the worker is connected to its source of tables."""

    @property
    def confirmed_at(self) -> float | None:
        """Monotonic time when the table was last known to be the newest."""

    async def report(self, report: bytes) -> None:
        """Send one report. Failures are handled there."""


class Reporter:
    """Builds and sends the reports of one worker."""

    def __init__(
        self,
        worker: str,
        incarnation: int,
        applier: TableApplier,
        proxy: Proxy,
        overload: OverloadMonitor,
        link: ReportLink,
        rng: random.Random,
    ) -> None:
        self.draining = False
        self._worker = worker
        self._incarnation = incarnation
        self._applier = applier
        self._proxy = proxy
        self._overload = overload
        self._link = link
        self._rng = rng
        self._sequence = 0
        self._kept = KeptCounters(rng)
        self._started = time.monotonic()

    async def run(self) -> None:
        """Report once a second until cancelled. Workers report at different times within the second."""
        await self.send()
        due = time.monotonic() + self._rng.random() * EVERY_S
        while True:
            await asyncio.sleep(due - time.monotonic())
            await self.send()
            due = max(due + EVERY_S, time.monotonic() + EVERY_S / 2)

    async def send(self) -> None:
        """Send one report."""
        await in_slices(self._proxy.stream_mover.survey())
        keys = await key_reports(self._proxy.key_quotas)
        fleets = await fleet_reports(self._applier.table.fleets, self._applier.refused_fleets, self._kept)
        # Encoded before anything is awaited, because requests change the same counters.
        await self._link.report(encode_report(self._build(fleets, keys)))

    def _build(self, fleets: list[FleetCounters], keys: list[KeyCounters]) -> WorkerReport:
        self._sequence += 1
        now = time.monotonic()
        known_at = self._link.confirmed_at
        clients = self._proxy.connection_limit
        table = self._applier.table
        prefixes = table.prefixes
        news = _NO_NEWS if prefixes is None else prefixes.news
        return WorkerReport(
            worker=self._worker,
            incarnation=self._incarnation,
            sequence=self._sequence,
            host=socket.gethostname(),
            pid=os.getpid(),
            software=SOFTWARE,
            compiled=compiled.in_use(),
            site=self._applier.table.site,
            manifest=str(self._applier.manifest_version),
            installation=self._applier.table.manifest.installation,
            refused_manifest=self._applier.refused_manifest,
            table_age_s=max(0.0, now - (self._started if known_at is None else known_at)),
            redis_ok=self._link.connected,
            draining=self.draining,
            limits_shared_by=self._applier.table.quota_share.count,
            uptime_s=now - self._started,
            cpu_s=time.process_time(),
            clients=self._proxy.clients,
            upstreams=self._proxy.upstreams,
            rejected=self._proxy.rejected,
            max_clients=clients.most,
            refused_clients=clients.refused,
            evicted_clients=clients.evicted,
            gave_way=dict(self._proxy.gave_way),
            body_bytes=self._proxy.bodies.used,
            max_body_bytes=self._proxy.bodies.total,
            open_fds=self._overload.in_use,
            max_fds=self._overload.limit,
            short_of=self._overload.short_of,
            certificate_left_s=_left_s(self._proxy.certificate_ends_at),
            prefixes_sent=news.sent,
            prefixes_applied=news.applied,
            prefixes_left_out=news.left_out,
            prefix_messages_refused=news.refused,
            totals="" if table.totals is None else table.totals.identity,
            fleets=fleets,
            keys=keys,
            accelerators=self._applier.table.memory.counters(),
            drained_by_hand=self._applier.emergency_drains(now),
        )


def _left_s(ends_at: float | None) -> float | None:
    return None if ends_at is None else ends_at - time.time()
