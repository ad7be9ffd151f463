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

SIGUSR1 replaces the workers one after the other; where it has a certificate, SIGHUP has that read again.
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
from routing.admin.restart_view import LeavingWorker
from routing.certificate import Certificate
from routing.contract.telemetry import WorkerReport
from routing.control_channel import (
    Drain,
    LimitsShared,
    Message,
    NewCertificate,
    Overrides,
    Peers,
    Start,
    StopAccepting,
    Tables,
)
from routing.kept_ids import KeptIds, Place
from routing.parent.certificate_files import CertificateFiles
from routing.parent.disk_copy import DiskCopy
from routing.parent.kept_table import KeptTable
from routing.parent.listeners import Address, open_listener, open_listeners
from routing.parent.options import Options
from routing.parent.rolling_restart import RollingRestart
from routing.parent.worker_numbers import WorkerNumbers
from routing.parent.worker_process import WorkerProcess
from routing.parent.worker_slot import WorkerSlot
from routing.standalone.fleet_file_feed import Standalone

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
        self._numbers = WorkerNumbers(options.workers)
        self.slots = [WorkerSlot(index, index, self._process) for index in range(options.workers)]
        drain_s = options.drain_s
        self.rolling = RollingRestart(self.slots, self._numbers, drain_s, self._tell_peers)
        self._signalled = asyncio.Event()
        self._forced = asyncio.Event()

    def _process(self, index: int, number: int) -> WorkerProcess:
        listener, numbers = self._listeners[index], self._numbers
        return WorkerProcess(index, number, listener, numbers.counts, numbers.wakes, self)

    # --- for the workers (worker_process.Owner) ----------------------------------------------------

    def greeting(self, index: int, number: int) -> list[Message]:
        start = Start(
            name=self.options.name,
            parent_pid=os.getpid(),
            number=number,
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
        peers, overrides = Peers(numbers=sorted(self._numbers.taken)), Overrides(drained=self.drains.keys())
        messages: list[Message] = [start, peers, overrides, self._limits_shared]
        if known is not None:
            messages.append(known)
        if self.draining:
            messages.append(Drain())
        return messages

    def took(self, tables: Tables) -> None:
        self.table.keep(tables.manifest, tables.snapshots)

    def shares_limits(self, share: LimitsShared) -> None:
        self._limits_shared = share

    def learned(self, name: str, place: Place) -> None:
        self.kept.learn(name, place, time.monotonic())

    def who_keeps(self, name: str) -> Place | None:
        return self.kept.find(name, time.monotonic())

    def ended(self, report: WorkerReport | None) -> None:
        if report is not None:
            self.totals.retire(report)

    # --- for the admin door ------------------------------------------------------------------------

    def workers(self) -> list[WorkerView]:
        return [_view(slot, slot.present) for slot in self.slots]

    def leaving(self) -> list[LeavingWorker]:
        """Workers that have been replaced and are not gone yet."""
        old = [(slot.index, slot.leaving) for slot in self.slots if slot.leaving is not None]
        return [LeavingWorker(index, process.pid, process.report) for index, process in old]

    def unready(self) -> str | None:
        """Why the proxy should get no traffic, in words."""
        if self.draining:
            return "draining: the proxy is about to exit"
        for slot in self.slots:
            if not slot.present.serving:
                return f"worker {slot.index} is starting"
            if slot.present.manifest is None:
                return f"worker {slot.index} has no routing table yet"
        return None

    def tell_overrides(self) -> None:
        self._tell(Overrides(drained=self.drains.keys()))

    def restart(self) -> str | None:
        """Begin to replace the workers one after the other; why not, in words."""
        if self.draining:
            return "the proxy drains and is about to exit"
        if self.rolling.under_way:
            return "a rolling restart is under way; /status shows how far it is"
        self.rolling.begin()
        return None

    # --- life --------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until signalled, then drain; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGUSR1, self._on_restart_signal)
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
        for report in (process.report for slot in self.slots for process in slot.processes):
            for fleet in () if report is None else report.fleets:
                for replica in fleet.replicas:
                    count = replica.succeeded + replica.client_errors
                    answers[replica.uid] = answers.get(replica.uid, 0) + count
        return answers

    async def _housekeeping(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_EVERY_S)
            now = time.monotonic()
            for process in (process for slot in self.slots for process in slot.processes):
                process.check_pulse(now)
            if self.drains.expire(now):
                log.warning("an emergency drain has run out")
                self.tell_overrides()

    def _tell_peers(self) -> None:
        self._tell(Peers(numbers=sorted(self._numbers.taken)))

    def _tell(self, message: Message) -> None:
        for slot in self.slots:
            slot.send(message)

    def _on_restart_signal(self) -> None:
        refusal = self.restart()
        if refusal is not None:
            log.warning("SIGUSR1: no rolling restart is begun: %s", refusal)

    def _on_signal(self, number: int) -> None:
        if self._signalled.is_set():
            log.warning("%s again: leaving at once", signal.Signals(number).name)
            self._forced.set()
            return
        log.info("%s: draining for at most %g s", signal.Signals(number).name, self.options.drain_s)
        self.draining = True
        self.rolling.stop()
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
        left = sum(process.pid is not None for slot in self.slots for process in slot.processes)
        if left:
            log.warning("%d workers still had requests in flight after %g s", left, self.options.drain_s)
        log.info("drained")
        return 0

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()


def _view(slot: WorkerSlot, process: WorkerProcess) -> WorkerView:
    report, age_s = process.report, process.report_age_s
    return WorkerView(slot.index, process.pid, process.serving, slot.restarts, report, age_s)


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
