"""The parent process of a proxy: sockets, workers, signals, drain, admin door. No request passes here.

It opens one listener per worker and keeps all of them, so that a worker may die and its successor
go on with the same accept queue. On the first SIGTERM or SIGINT the proxy drains:

==================  ==========================================================================
at once             ``/readyz`` answers 503; answers carry ``Connection: close``
after min_drain_s   listeners are closed, and connections that have been quiet for a second; a worker
                    leaves when nothing is in flight any more
after drain_s       what is left is cut; exit status 0
second signal       everything is killed; exit status 1
==================  ==========================================================================

Where it has a certificate, SIGHUP has that read again.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from routing import descriptors
from routing.admin.door import AdminDoor
from routing.admin.emergency_drain import EmergencyDrains
from routing.admin.metrics import WorkerView
from routing.admin.report_sums import Totals
from routing.certificate import Certificate
from routing.contract.telemetry import WorkerReport
from routing.control_channel import (
    Drain,
    LimitsShared,
    Message,
    NewCertificate,
    Overrides,
    Start,
    StopAccepting,
    Tables,
)
from routing.kept_ids import KeptIds
from routing.parent.certificate_files import CertificateFiles
from routing.parent.disk_copy import DiskCopy
from routing.parent.kept_table import KeptTable
from routing.parent.listeners import Address, open_listener, open_listeners
from routing.parent.options import Options
from routing.parent.worker_slot import WorkerSlot
from routing.shared_counts import SharedCounts
from routing.standalone.fleet_file_feed import Standalone
from routing.wake_ups import WakeUps

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY_S = 1.0
QUIET_S = 1.0
"""While the proxy leaves, an idle connection is closed once nothing has come for so long: whoever has just
connected, or just had an answer, may be sending a request."""


class Server:
    """One proxy. Construct it inside a running event loop, then :meth:`run`."""

    def __init__(
        self, options: Options, standalone: Standalone | None, certificate: CertificateFiles | None = None
    ) -> None:
        """Opens the sockets. Raises :class:`routing.parent.listeners.ListenFailed`."""
        self.options = options
        self.draining = False
        self.totals = Totals()
        self.drains = EmergencyDrains()
        self.table = KeptTable(None if options.state_dir is None else DiskCopy(options.state_dir))
        self.certificate = certificate
        self.kept = KeptIds()
        self._limits_shared = LimitsShared(position=0, count=1)
        self._standalone = standalone
        self._listeners = open_listeners(options.listen, options.workers)
        self._admin = None if options.admin is None else open_listener(options.admin)
        self._counts = SharedCounts.create(options.workers)
        wakes = WakeUps.create(options.workers)
        self.slots = [
            WorkerSlot(index, listener, self._counts, wakes, self)
            for index, listener in enumerate(self._listeners)
        ]
        self._signalled = asyncio.Event()
        self._forced = asyncio.Event()

    # --- for the slots (worker_slot.Owner) ---------------------------------------------------------

    def greeting(self, index: int) -> list[Message]:
        start = Start(
            name=self.options.name,
            parent_pid=os.getpid(),
            index=index,
            # Wall clock, because it has to differ from what a parent of the same pid gave out before.
            incarnation=time.time_ns() // 1_000_000,
            redis_url=self.options.redis_url,
            log_level=self.options.log_level,
            log_format=self.options.log_format,
            access_log=self.options.access_log,
            max_connections=self.options.max_connections,
            keys_required=self.options.keys_required,
            certificate=None if self.certificate is None else self.certificate.in_force,
            trace_sample_percent=self.options.trace_sample_percent,
        )
        known = self.table.message()
        messages: list[Message] = [start, Overrides(drained=self.drains.keys()), self._limits_shared]
        if known is not None:
            messages.append(known)
        if self.draining:
            messages.append(Drain())
        return messages

    def took(self, tables: Tables) -> None:
        self.table.keep(tables.manifest, tables.snapshots)

    def shares_limits(self, share: LimitsShared) -> None:
        self._limits_shared = share

    def ended(self, report: WorkerReport | None) -> None:
        if report is not None:
            self.totals.retire(report)

    # --- for the admin door ------------------------------------------------------------------------

    def workers(self) -> list[WorkerView]:
        return [
            WorkerView(s.index, s.pid, s.serving, s.restarts, s.report, s.report_age_s) for s in self.slots
        ]

    def unready(self) -> str | None:
        """Why the proxy should get no traffic, in words."""
        if self.draining:
            return "draining: the proxy is about to exit"
        for slot in self.slots:
            if not slot.serving:
                return f"worker {slot.index} is starting"
            if slot.manifest is None:
                return f"worker {slot.index} has no routing table yet"
        return None

    def tell_overrides(self) -> None:
        self._tell(Overrides(drained=self.drains.keys()))

    # --- life --------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until signalled, then drain; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        descriptors.raise_limit()
        await self._find_table()
        tasks = [asyncio.ensure_future(work) for work in self._background()]
        workers = [asyncio.ensure_future(slot.run()) for slot in self.slots]
        address = Address(self.options.listen.host, self._listeners[0].getsockname()[1])
        log.info("listening on %s with %d workers", address, len(self.slots))
        if self.certificate is not None:
            self.certificate.begin(self._on_certificate)
            loop.add_signal_handler(signal.SIGHUP, self.certificate.reload)
        if self.options.admin is not None and self._admin is not None:
            admin = Address(self.options.admin.host, self._admin.getsockname()[1])
            log.info("admin listener on %s", admin)
        self._warn(address)
        try:
            await _first_of(self._signalled.wait(), *tasks)
            return await self._drain(workers)
        finally:
            for slot in self.slots:
                slot.kill()
            for task in (*tasks, *workers):
                task.cancel()
            await asyncio.gather(*tasks, *workers, return_exceptions=True)
            self._close_listeners()

    def _warn(self, address: Address) -> None:
        if address.is_loopback:
            return
        if self.options.keys_required:
            log.info("%s is reachable from outside: requests need a client key", address)
        else:
            words = "%s is reachable from outside, and --open is given: until a client key exists, whoever"
            log.warning(f"{words} reaches it can use the models", address)

    async def _find_table(self) -> None:
        if self._standalone is None:
            await asyncio.to_thread(self.table.load)
        else:
            self._standalone.begin(self._on_tables, self._answered)

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        works = [self._housekeeping(), self.table.write_to_disk() if self.options.state_dir else None]
        works.append(None if self._standalone is None else self._standalone.run())
        works.append(None if self.certificate is None else self.certificate.run())
        if self._admin is not None:
            works.append(AdminDoor(self, self._admin).run())
        return [work for work in works if work is not None]

    def _on_tables(self, tables: Tables) -> None:
        """A new table of the fleet file."""
        self.table.keep(tables.manifest, tables.snapshots)
        self._tell(tables)

    def _on_certificate(self, certificate: Certificate) -> None:
        self._tell(NewCertificate(certificate=certificate))

    def _answered(self) -> dict[str, int]:
        """Replica uid → answers of live traffic that the workers have reported."""
        answers: dict[str, int] = {}
        for report in (slot.report for slot in self.slots):
            for fleet in () if report is None else report.fleets:
                for replica in fleet.replicas:
                    count = replica.succeeded + replica.client_errors
                    answers[replica.uid] = answers.get(replica.uid, 0) + count
        return answers

    async def _housekeeping(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_EVERY_S)
            now = time.monotonic()
            for slot in self.slots:
                slot.check_pulse(now)
            if self.drains.expire(now):
                log.warning("an emergency drain has run out")
                self.tell_overrides()

    def _tell(self, message: Message) -> None:
        for slot in self.slots:
            slot.send(message)

    def _on_signal(self, number: int) -> None:
        if self._signalled.is_set():
            log.warning("%s again: leaving at once", signal.Signals(number).name)
            self._forced.set()
            return
        log.info("%s: draining for at most %g s", signal.Signals(number).name, self.options.drain_s)
        self.draining = True
        self._signalled.set()
        self._tell(Drain())

    async def _drain(self, workers: Sequence[asyncio.Future[None]]) -> int:
        """Let requests finish; 0, or 1 when a second signal cut it short."""
        deadline = time.monotonic() + self.options.drain_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.min_drain_s):
                await self._forced.wait()
        for slot in self.slots:
            slot.let_leave()
        self._tell(StopAccepting(quiet_s=QUIET_S))
        self._close_listeners()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await _first_of(self._forced.wait(), _all_of(workers))
        if self._forced.is_set():
            return 1
        left = sum(slot.pid is not None for slot in self.slots)
        if left:
            log.warning("%d workers still had requests in flight after %g s", left, self.options.drain_s)
        log.info("drained")
        return 0

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()


async def _first_of(*waits: "Coroutine[Any, Any, Any] | asyncio.Future[Any]") -> None:
    """Wait until one is done; raise what it raised. Coroutines among them are cancelled then."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait, task in zip(waits, tasks, strict=True):
            if not isinstance(wait, asyncio.Future):
                task.cancel()
    for task in done:
        task.result()


async def _all_of(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Wait until all are done or one fails: raise what it raised. Being cancelled cancels none of them."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
