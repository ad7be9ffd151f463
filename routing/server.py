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

SIGUSR1 replaces the workers one after the other, SIGUSR2 the parent and with it all of them
(:mod:`routing.upgrade`). Where it has a certificate, SIGHUP has that read again.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from routing.admin.door import AdminDoor
from routing.admin.emergency_drain import EmergencyDrains
from routing.admin.metrics import WorkerView
from routing.admin.report_sums import Totals
from routing.admin.restart_view import LeavingWorker
from routing.contract.telemetry import WorkerReport
from routing.parent.certificate_files import CertificateFiles
from routing.parent.disk_copy import DiskCopy
from routing.parent.kept_table import KeptTable
from routing.parent.listeners import Address, open_listener, open_listeners
from routing.parent.options import Options
from routing.parent.rolling_restart import QUIET_S as QUIET_WHEN_FOLLOWED_S
from routing.parent.rolling_restart import RollingRestart
from routing.parent.worker_numbers import WorkerNumbers
from routing.parent.worker_process import WorkerProcess
from routing.parent.worker_slot import WorkerSlot
from routing.processes import descriptors
from routing.processes.control_channel import (
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
from routing.processes.waits import all_of, first_of, until
from routing.replica_state.kept_ids import KeptIds, Place
from routing.standalone.fleet_file_feed import Standalone
from routing.tls.certificate import Certificate
from routing.upgrade import service_manager
from routing.upgrade.inherited import NOTHING, Inherited
from routing.upgrade.letters import Estate
from routing.upgrade.predecessor import HandoverFailed
from routing.upgrade.succession import Succession
from routing.upgrade.successor import Successor
from routing.upgrade.upgrade import Upgrade

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY_S = 1.0
QUIET_S = 1.0
"""While the proxy leaves, an idle connection is closed once nothing has come for so long: whoever has just
connected, or just had an answer, may be sending a request."""


class Server:
    """One proxy. Construct it inside a running event loop, then :meth:`run`."""

    def __init__(
        self,
        options: Options,
        standalone: Standalone | None,
        certificate: CertificateFiles | None = None,
        inherited: Inherited = NOTHING,
    ) -> None:
        """Opens the sockets that are not inherited. Raises :class:`routing.parent.listeners.ListenFailed`."""
        self.options = options
        self.draining = False
        self.totals = Totals()
        self.drains = EmergencyDrains()
        self.table = KeptTable(None if options.state_dir is None else DiskCopy(options.state_dir))
        self.certificate = certificate
        self.kept = KeptIds()
        self._limits_shared = LimitsShared(position=0, count=1)
        self._standalone = standalone
        self._listeners = inherited.listeners or open_listeners(options.listen, options.workers)
        self._admin = inherited.admin
        if self._admin is None and options.admin is not None:
            self._admin = open_listener(options.admin)
        self._numbers = WorkerNumbers(options.workers)
        self.slots = [WorkerSlot(index, index, self._process) for index in range(options.workers)]
        drain_s = options.drain_s
        self.rolling = RollingRestart(self.slots, self._numbers, drain_s, self._tell_peers)
        self.upgrade = Upgrade(self, drain_s)
        self._succession = Succession(inherited.channel, self)
        self._stop: StopAccepting | None = None
        """What the workers have been told last."""
        self._signalled = asyncio.Event()
        self._forced = asyncio.Event()

    def _process(self, index: int, number: int) -> WorkerProcess:
        # Those that a service manager gives may be fewer than the workers.
        listener, numbers = self._listeners[index % len(self._listeners)], self._numbers
        return WorkerProcess(index, number, listener, numbers.counts, numbers.wakes, self)

    @property
    def site(self) -> str:
        """Where it is; empty: nobody said."""
        return self.options.site

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
            site=self.options.site,
            log_level=self.options.log_level,
            log_format=self.options.log_format,
            access_log=self.options.access_log,
            max_connections=self.options.max_connections,
            keys_required=self.options.keys_required,
            certificate=None if self.certificate is None else self.certificate.in_force,
            trace_sample_percent=self.options.trace_sample_percent,
            state_dir=None if self.options.state_dir is None else str(self.options.state_dir.absolute()),
        )
        known = self.table.message()
        peers, overrides = Peers(numbers=sorted(self._numbers.taken)), self._overrides()
        messages: list[Message] = [start, peers, overrides, self._limits_shared]
        if known is not None:
            messages.append(known)
        if self.draining:
            messages.append(Drain())
        if self._stop is not None:
            messages.append(self._stop)
        return messages

    def took(self, tables: Tables) -> None:
        self.table.keep(tables.manifest, tables.snapshots)

    def shares_limits(self, share: LimitsShared) -> None:
        self._limits_shared = share

    def learned(self, name: str, place: Place) -> None:
        self.kept.learn(name, place, time.monotonic())
        if self.upgrade.successor is not None:
            self.upgrade.successor.learned(name, place)

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
        self._tell(self._overrides())

    def _overrides(self) -> Overrides:
        return Overrides(drained=[(fleet, replica, ends) for fleet, replica, ends in self.drains.all()])

    def restart(self) -> str | None:
        """Begin to replace the workers one after the other; why not, in words."""
        if self.draining:
            return "the proxy drains and is about to exit"
        refusal = self._busy()
        if refusal is None:
            self.rolling.begin()
        return refusal

    def begin_upgrade(self) -> str | None:
        """Begin to hand over to a new parent; why not, in words."""
        refusal = self._busy()
        if refusal is None:
            self.upgrade.begin()
        return refusal

    def _busy(self) -> str | None:
        if self.draining:
            return "the proxy drains and is about to exit"
        if self.rolling.under_way:
            return "a rolling restart is under way; /status shows how far it is"
        if self.upgrade.under_way:
            return "an upgrade is under way; /status shows how far it is"
        return None

    # --- for a successor (upgrade.Testator), and from a predecessor (predecessor.Heir) --------------

    def sockets(self) -> tuple[list[socket.socket], socket.socket | None]:
        return self._listeners, self._admin

    def estate(self) -> Estate:
        now = time.monotonic()
        drained = [(one.fleet, one.replica, one.expires_at - now) for one in self.drains.all()]
        table = self.table
        return Estate(drained=drained, manifest=table.manifest, snapshots=list(table.snapshots.values()))

    def kept_ids(self) -> list[tuple[str, Place]]:
        return self.kept.all()

    def hand_over(self, successor: Successor) -> None:
        self._succession.hand_over(successor, self.estate())
        self._begin_drain()

    def inherit(self, estate: Estate) -> None:
        self.drains.inherit(estate.drained, time.monotonic())
        if self._standalone is None:
            self.table.keep(estate.manifest, estate.snapshots)
        else:
            self._standalone.inherit(estate.snapshots)
        self.tell_overrides()

    # --- life --------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until signalled, then drain; the exit status. Raises HandoverFailed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        for number, begin in ((signal.SIGUSR1, self.restart), (signal.SIGUSR2, self.begin_upgrade)):
            loop.add_signal_handler(number, self._on_restart_signal, number, begin)
        descriptors.raise_limit()
        await self._succession.meet()
        await self._find_table()
        tasks = [asyncio.ensure_future(work) for work in self._background()]
        workers = [asyncio.ensure_future(slot.run()) for slot in self.slots]
        address = Address(self.options.listen.host, self._listeners[0].getsockname()[1])
        log.info("listening on %s with %d workers", address, len(self.slots))
        if self.certificate is not None:
            self.certificate.begin(self._on_certificate)
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        if self._admin is not None:
            log.info("admin listener on %s", Address(*self._admin.getsockname()[:2]))
        self._warn(address)
        try:
            await first_of(self._signalled.wait(), *tasks)
            status = await self._drain(workers)
        finally:
            await self.upgrade.see_off()
            for slot in self.slots:
                slot.kill()
            for task in (*tasks, *workers):
                task.cancel()
            await asyncio.gather(*tasks, *workers, return_exceptions=True)
            self._close_listeners()
        return await self._succession.stand(status)

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
        if self._succession.has_predecessor:
            works.append(self._succeed())
        else:
            works.append(self._tell_service_manager())
            works.append(None if self._admin is None else self._keep_door(self._admin))
        return [work for work in works if work is not None]

    async def _keep_door(self, listener: socket.socket) -> None:
        await first_of(self._succession.handed_over.wait(), AdminDoor(self, listener).run())
        await self._forced.wait()

    async def _tell_service_manager(self) -> None:
        """That the proxy serves; without a table it does so by refusing requests in words."""
        await until(lambda: all(slot.present.serving for slot in self.slots))
        service_manager.notify("READY=1")
        await self._forced.wait()

    async def _succeed(self) -> None:
        """Take the predecessor's place, and stay as long as it stands for this process."""
        succession = self._succession
        try:
            await succession.take_over(lambda: self.unready() is None)
        except HandoverFailed as problem:
            log.error("nothing is taken over: %s", problem)
        else:
            works = [succession.orphaned()]
            if self._admin is not None:
                works.append(self._keep_door(self._admin))
            await first_of(*works)
            if not self._forced.is_set():
                log.error("the process that stands for this proxy is gone: leaving at once")
        self._leave_at_once()

    def _leave_at_once(self) -> None:
        self._forced.set()
        self._signalled.set()

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
            over = self.drains.expire(now)
            for fleet, replica, _ in over:
                log.warning("the drain by hand of replica %s of fleet %s has run out", replica, fleet)
            if over:
                self.tell_overrides()

    def _tell_peers(self) -> None:
        self._tell(Peers(numbers=sorted(self._numbers.taken)))

    def _tell(self, message: Message) -> None:
        for slot in self.slots:
            slot.send(message)

    def _on_restart_signal(self, number: int, begin: Callable[[], str | None]) -> None:
        refusal = None if self._succession.passed_on(number) else begin()
        if refusal is not None:
            log.warning("%s is not followed: %s", signal.Signals(number).name, refusal)

    def _on_hangup(self) -> None:
        if not self._succession.passed_on(signal.SIGHUP) and self.certificate is not None:
            self.certificate.reload()

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._succession.passed_on(number):
            return
        if self._signalled.is_set():
            log.warning("%s again: leaving at once", name)
            self._forced.set()
        else:
            log.info("%s: draining for at most %g s", name, self.options.drain_s)
            service_manager.notify("STOPPING=1")
            self.rolling.stop()
            self.upgrade.cancel()
            self._begin_drain()

    def _begin_drain(self) -> None:
        self.draining = True
        self._signalled.set()
        self._tell(Drain())

    async def _drain(self, workers: Sequence[asyncio.Future[None]]) -> int:
        """Let requests finish; 0, or 1 when a second signal cut it short."""
        deadline = time.monotonic() + self.options.drain_s
        follower = self._succession.follower
        followed = follower is not None
        if not followed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.options.min_drain_s):
                    await self._forced.wait()
        for slot in self.slots:
            slot.let_leave()
        quiet_s = QUIET_WHEN_FOLLOWED_S if followed else QUIET_S
        self._stop = StopAccepting(quiet_s=quiet_s, followed=followed)
        self._tell(self._stop)
        self._close_listeners()
        ends: list[Coroutine[Any, Any, Any]] = [self._forced.wait(), self._all_gone(workers)]
        if follower is not None:
            ends.append(follower.gone())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await first_of(*ends)
        if self._forced.is_set():
            return 1
        left = sum(process.pid is not None for slot in self.slots for process in slot.processes)
        if left:
            log.warning("%d workers still had requests in flight after %g s", left, self.options.drain_s)
        log.info("drained")
        return 0

    async def _all_gone(self, workers: Sequence[asyncio.Future[None]]) -> None:
        await all_of(workers)
        await self._succession.predecessor_finished()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()


def _view(slot: WorkerSlot, process: WorkerProcess) -> WorkerView:
    report, age_s = process.report, process.report_age_s
    return WorkerView(slot.index, process.pid, process.serving, slot.restarts, report, age_s)
