"""Master process of a proxy: sockets, workers, signals, drain, admin server. No request passes through it.

It opens one listener per worker and keeps all of them, so if a worker dies, its successor has the same accept
queue. On the first SIGTERM or SIGINT the proxy drains:

==================  ==========================================================================
at once             ``/readyz`` responds with 503; responses have ``Connection: close``
after min_drain_s   listeners are closed, and connections that have been idle for a second; a worker
                    exits when nothing is in flight any more
after drain_s       what is left is aborted; exit status 0
second signal       everything is killed; exit status 1
==================  ==========================================================================

When the master is killed, its workers serve on, and the next master takes them over
(:mod:`routing.master.orphaned_workers`).

SIGUSR1 replaces the workers one after the other (:mod:`routing.master.rolling_restart`), SIGUSR2 replaces the
master and with it all workers (:mod:`routing.master.upgrade`). SIGHUP reloads the certificate, if there is
one.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

from routing.contract.telemetry import WorkerReport
from routing.ipc import descriptors
from routing.ipc.async_waits import all_of, first_of, until
from routing.ipc.control_channel import (
    ControlMessage,
    Drain,
    LimitsShared,
    NewCertificate,
    Overrides,
    Siblings,
    StickyCorrection,
    StopAccepting,
    Tables,
    TracesFinished,
    quiet_time_s,
)
from routing.master import orphaned_workers, own_ports
from routing.master.admin.admin_server import AdminServer
from routing.master.admin.aggregate import RetiredCounters
from routing.master.admin.emergency_drain import EmergencyDrains
from routing.master.admin.export_status import ExportStatus
from routing.master.admin.metrics import WorkerStatus
from routing.master.admin.restart_status import LeavingWorker
from routing.master.certificate_watcher import CertificateWatcher
from routing.master.disk_cache import DiskCache
from routing.master.kv_events.listener import KvEventListener
from routing.master.listeners import BindAddress, open_listener, open_listeners
from routing.master.options import Options
from routing.master.orphaned_workers import OrphanedWorkers
from routing.master.rolling_restart import RollingRestart
from routing.master.standalone.fleet_file_watcher import FleetFileWatcher
from routing.master.supervised_worker import SupervisedWorker
from routing.master.table_cache import TableCache
from routing.master.tracing.trace_exporter import TraceExporter
from routing.master.upgrade import sd_notify
from routing.master.upgrade.handover import Handover
from routing.master.upgrade.handover_messages import HandoverState
from routing.master.upgrade.inherited_sockets import NO_SOCKETS, InheritedSockets
from routing.master.upgrade.predecessor import HandoverFailed
from routing.master.upgrade.successor import Successor
from routing.master.upgrade.upgrade import Upgrade
from routing.master.worker_bootstrap import bootstrap
from routing.master.worker_numbers import WorkerNumberAllocator
from routing.master.worker_process import SharedMemory, WorkerProcess
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.sticky_ids import ReplicaRef, StickyIds
from routing.tls.certificate import Certificate

log = logging.getLogger(__name__)

HOUSEKEEPING_EVERY_S = 1.0
HELD_S = 5.0
"""A master that was held so long (stopped, frozen, starved of CPU) judges no worker by its silence then."""
LATE_ORPHANS_AFTER_S = (2.0, 10.0)
"""When to look again for workers of a master that was killed: one may have been busy when this one began."""
LAST_TRACES_S = 3.0
"""How long the last traces may take to be exported, once all workers have ended."""
EXIT_ABANDONED = 75
"""Exit status (EX_TEMPFAIL) of a master that leaves its workers to the next one."""
KILLED_BY_SIGNAL = 128
"""Exit statuses above it are of a process that a signal has ended, as a shell reports it."""


class Master:
    """One proxy. Construct it inside a running event loop, then :meth:`run`."""

    def __init__(
        self,
        options: Options,
        standalone: FleetFileWatcher | None,
        certificate: CertificateWatcher | None = None,
        inherited: InheritedSockets = NO_SOCKETS,
        orphaned: OrphanedWorkers | None = None,
        prefixes: PrefixMemory | None = None,
    ) -> None:
        """Opens the sockets that are not inherited. ``prefixes``: those of the master before. Raises
        :class:`routing.master.listeners.ListenFailed`."""
        self.options = options
        self.draining = False
        self._numbers = WorkerNumberAllocator(options.workers)
        self.totals = RetiredCounters(self._numbers.totals)
        self.drains = EmergencyDrains()
        self.table = TableCache(None if options.state_dir is None else DiskCache(options.state_dir))
        self.certificate = certificate
        self.sticky_ids = StickyIds()
        self.prefixes = prefixes or PrefixMemory.create()
        """Which prompts replicas were sent: the workers' shared memory."""
        self.kv_events = KvEventListener(self.prefixes, self.table, self._answers_by_replica)
        self._traces = None if options.traces is None else TraceExporter(options.traces, options.name)
        self._limits_shared = LimitsShared(position=0, count=1)
        self._standalone = standalone
        self._orphaned = OrphanedWorkers() if orphaned is None else orphaned
        self._listeners = inherited.listeners or open_listeners(options.listen, options.workers)
        self._admin = inherited.admin
        if self._admin is None and options.admin is not None:
            self._admin = open_listener(options.admin)
        self._admin_server: AdminServer | None = None
        self._addresses = own_ports.of_sockets(options, self._listeners, self._admin)
        own_ports.judge_by(self._addresses)
        self.supervised = [SupervisedWorker(index, index, self._process) for index in range(options.workers)]
        drain_s = options.drain_s
        self.rolling = RollingRestart(self.supervised, self._numbers, drain_s, self._send_siblings)
        self.upgrade = Upgrade(self, drain_s)
        self._handover = Handover(inherited.channel, self)
        self._stop: StopAccepting | None = None
        """Once it was sent to the workers: also for workers that start later."""
        self._signalled = asyncio.Event()
        self._forced = asyncio.Event()

    def _process(self, index: int, number: int) -> WorkerProcess:
        # A service manager may pass fewer sockets than there are workers.
        listener, numbers = self._listeners[index % len(self._listeners)], self._numbers
        memory = SharedMemory(numbers.counts, numbers.wakeups, self.prefixes, numbers.totals)
        return WorkerProcess(index, number, listener, memory, self)

    @property
    def site(self) -> str:
        """The proxy's site; empty: not configured."""
        return self.options.site

    # --- for the workers (worker_process.WorkerOwner) ----------------------------------------------------

    def initial_messages(self, index: int, number: int) -> list[ControlMessage]:
        certificate = None if self.certificate is None else self.certificate.in_force
        fds = self.prefixes.fd, self._numbers.totals.fd
        start = bootstrap(self.options, index, number, self._addresses, certificate, *fds)
        known = self.table.message()
        siblings, overrides = Siblings(numbers=sorted(self._numbers.taken)), self._overrides()
        messages: list[ControlMessage] = [start, siblings, overrides, self._limits_shared]
        if known is not None:
            messages.append(known)
        if self.draining:
            messages.append(Drain())
        return messages if self._stop is None else [*messages, self._stop]

    def on_tables_applied(self, tables: Tables) -> None:
        self.table.keep(tables.manifest, tables.snapshots)

    def on_limits_shared(self, share: LimitsShared) -> None:
        self._limits_shared = share

    def on_sticky_learned(self, name: str, replica_ref: ReplicaRef) -> None:
        self._share_sticky(name, replica_ref, self.sticky_ids.settle(name, replica_ref, time.monotonic()))

    def on_sticky_correction(self, name: str, replica_ref: ReplicaRef) -> None:
        self._share_sticky(name, replica_ref, self.sticky_ids.overrule(name, replica_ref, time.monotonic()))

    def _share_sticky(self, name: str, replica_ref: ReplicaRef, first: ReplicaRef | None) -> None:
        if first is not None:
            self._broadcast(StickyCorrection(name=name, replica_ref=first))
        elif self.upgrade.successor is not None:
            self.upgrade.successor.on_sticky_learned(name, replica_ref)

    def find_sticky(self, name: str) -> ReplicaRef | None:
        return self.sticky_ids.find(name, time.monotonic())

    def on_traces(self, traces: TracesFinished) -> None:
        if self._traces is not None:
            self._traces.add(traces)

    def on_exit(self, report: WorkerReport | None) -> None:
        if report is not None:
            self.totals.retire(report)

    # --- for the admin server ------------------------------------------------------------------------

    def workers(self) -> list[WorkerStatus]:
        return [_view(worker, worker.current) for worker in self.supervised]

    def leaving(self) -> list[LeavingWorker]:
        """Workers that have been replaced and have not ended."""
        old = [(worker.index, worker.leaving) for worker in self.supervised if worker.leaving is not None]
        return [LeavingWorker(index, process.pid, process.report) for index, process in old]

    def trace_export(self) -> ExportStatus | None:
        """``None``: traces are not exported."""
        return None if self._traces is None else self._traces.status()

    def why_not_ready(self) -> str | None:
        """Why the proxy should get no traffic, in words."""
        if self.draining:
            return "draining: the proxy is about to exit"
        for worker in self.supervised:
            if not worker.current.serving:
                return f"worker {worker.index} is starting"
            if worker.current.manifest is None:
                return f"worker {worker.index} has no routing table yet"
        return None

    def send_overrides(self) -> None:
        self._broadcast(self._overrides())

    def _overrides(self) -> Overrides:
        return Overrides(drained=[(fleet, replica, ends) for fleet, replica, ends in self.drains.all()])

    def restart(self) -> str | None:
        """Begin a rolling restart. Returns why not, in words; ``None``: it has begun."""
        refusal = self._busy()
        if refusal is None:
            self.rolling.begin()
        return refusal

    def begin_upgrade(self) -> str | None:
        """Begin an upgrade: hand over to a new master. Returns why not, in words; ``None``: it has begun."""
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

    # --- for a successor (upgrade.OldMaster), and from a predecessor (predecessor.NewMaster) --------------

    def sockets(self) -> tuple[list[socket.socket], socket.socket | None]:
        return self._listeners, self._admin

    def handover_state(self) -> HandoverState:
        now = time.monotonic()
        drained = [(one.fleet, one.replica, one.expires_at - now) for one in self.drains.all()]
        table = self.table
        return HandoverState(
            drained=drained, manifest=table.manifest, snapshots=list(table.snapshots.values())
        )

    def all_sticky_ids(self) -> list[tuple[str, ReplicaRef]]:
        return self.sticky_ids.all()

    def hand_over(self, successor: Successor) -> None:
        self._handover.hand_over(successor, self.handover_state())
        self._begin_drain()

    def inherit(self, handover_state: HandoverState) -> None:
        self.drains.restore(handover_state.drained, time.monotonic())
        if self._standalone is None:
            self.table.keep(handover_state.manifest, handover_state.snapshots)
        else:
            self._standalone.restore_health(handover_state.snapshots)
            if handover_state.manifest is not None:
                self._standalone.restore_keys_required(handover_state.manifest)
        self.send_overrides()

    # --- lifecycle ---------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve until signalled, then drain. Returns the exit status. Raises HandoverFailed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        for number, begin in ((signal.SIGUSR1, self.restart), (signal.SIGUSR2, self.begin_upgrade)):
            loop.add_signal_handler(number, self._on_restart_signal, number, begin)
        loop.add_signal_handler(signal.SIGHUP, self._on_sighup)
        descriptors.raise_limit()
        await self._handover.receive_state()
        await self._find_table()
        tasks = [asyncio.ensure_future(work) for work in self._background()]
        workers = [asyncio.ensure_future(worker.run()) for worker in self.supervised]
        address = BindAddress(self.options.listen.host, self._listeners[0].getsockname()[1])
        log.info("listening on %s with %d workers", address, len(self.supervised))
        if self._orphaned:
            log.warning("%d workers of a master that was killed serve until these do", len(self._orphaned))
        if self.certificate is not None:
            self.certificate.begin(self._on_certificate)
        if self._admin is not None:
            log.info("admin listener on %s", BindAddress(*self._admin.getsockname()[:2]))
        self._warn(address)
        try:
            await first_of(self._signalled.wait(), *tasks)
            status = await self._drain(workers)
        finally:
            await self.upgrade.wait_cancelled()
            for worker in self.supervised:
                worker.kill()
            for task in (*tasks, *workers):
                task.cancel()
            await asyncio.gather(*tasks, *workers, return_exceptions=True)
            self._close_listeners()
            if self._admin_server is not None:
                await self._admin_server.finish()
            if self._traces is not None:
                await asyncio.to_thread(self._traces.close, 0.0 if self._forced.is_set() else LAST_TRACES_S)
        return await self._handover.wait_for_successor(status)

    def _warn(self, address: BindAddress) -> None:
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
            self._standalone.begin(self._on_tables, self._answers_by_replica)

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        works = [
            self._housekeeping(),
            self.kv_events.run(),
            self.table.write_to_disk() if self.options.state_dir else None,
        ]
        works.append(None if self._standalone is None else self._standalone.run())
        works.append(None if self.certificate is None else self.certificate.run())
        if self._handover.has_predecessor:
            works.append(self._take_over())
        else:
            works.append(self._relieve_orphans())
            works.append(self._tell_service_manager())
            works.append(None if self._admin is None else self._serve_admin(self._admin))
        return [work for work in works if work is not None]

    async def _serve_admin(self, listener: socket.socket) -> None:
        self._admin_server = AdminServer(self, listener)
        await self._admin_server.start()
        await self._handover.handed_over.wait()
        await self._admin_server.finish()
        await self._forced.wait()

    async def _tell_service_manager(self) -> None:
        """Send READY=1 once every worker serves. Without a table they serve too: with errors that say so."""
        await until(lambda: all(worker.current.serving for worker in self.supervised))
        sd_notify.notify("READY=1")
        await self._forced.wait()

    async def _relieve_orphans(self) -> None:
        """Drain the workers of a master that was killed, once those of this one serve and have a table."""
        await until(lambda: self.why_not_ready() is None)
        self._orphaned.drain(self._listeners, followed=True)
        here = BindAddress(*self._listeners[0].getsockname()[:2])
        for wait_s in LATE_ORPHANS_AFTER_S:
            await asyncio.sleep(wait_s)
            late = await asyncio.to_thread(orphaned_workers.find, here)
            late.drain(self._listeners, followed=not self.draining)
        await self._forced.wait()

    async def _take_over(self) -> None:
        """Take over from the predecessor. If that stays as the main process, exit when it has gone: whoever
        started that one starts another, which takes over this one's workers."""
        handover = self._handover
        try:
            await handover.take_over(lambda: self.why_not_ready() is None)
        except HandoverFailed as problem:
            log.error("nothing is taken over: %s", problem)
            if not self._signalled.is_set():
                self._abandon_workers()
        else:
            works = [handover.orphaned()]
            if self._admin is not None:
                works.append(self._serve_admin(self._admin))
            await first_of(*works)
            if not self._forced.is_set():
                log.error("the process that stands for this proxy is gone: its workers are left to the next")
                self._abandon_workers()
        self._leave_at_once()

    def _abandon_workers(self) -> NoReturn:
        """End as if killed: the workers serve on, or finish what they have if they drain."""
        logging.shutdown()
        os._exit(EXIT_ABANDONED)

    def _leave_at_once(self) -> None:
        self._forced.set()
        self._signalled.set()

    def _on_tables(self, tables: Tables) -> None:
        """A new table of the fleet file."""
        self.table.keep(tables.manifest, tables.snapshots)
        self._broadcast(tables)

    def _on_certificate(self, certificate: Certificate) -> None:
        self._broadcast(NewCertificate(certificate=certificate))

    def _answers_by_replica(self) -> dict[str, int]:
        """Replica uid → responses to live traffic that the workers have reported."""
        answers: dict[str, int] = {}
        for report in (process.report for worker in self.supervised for process in worker.processes):
            for fleet in () if report is None else report.fleets:
                for replica in fleet.replicas:
                    count = replica.succeeded + replica.client_errors
                    answers[replica.uid] = answers.get(replica.uid, 0) + count
        return answers

    async def _housekeeping(self) -> None:
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(HOUSEKEEPING_EVERY_S)
            now = time.monotonic()
            was_held, looked_at = now - looked_at > HELD_S, now
            for process in (process for worker in self.supervised for process in worker.processes):
                if was_held:
                    process.restart_heartbeat(now)
                else:
                    process.check_heartbeat(now)
            sd_notify.notify("WATCHDOG=1")
            over = self.drains.expire(now)
            for fleet, replica, _ in over:
                log.warning("the emergency drain of replica %s of fleet %s has run out", replica, fleet)
            if over:
                self.send_overrides()

    def _send_siblings(self) -> None:
        self._broadcast(Siblings(numbers=sorted(self._numbers.taken)))

    def _broadcast(self, message: ControlMessage) -> None:
        for worker in self.supervised:
            worker.send(message)

    def _on_restart_signal(self, number: int, begin: Callable[[], str | None]) -> None:
        refusal = None if self._handover.forward_signal(number) else begin()
        if refusal is not None:
            log.warning("%s is not followed: %s", signal.Signals(number).name, refusal)

    def _on_sighup(self) -> None:
        if self._handover.forward_signal(signal.SIGHUP):
            return
        if self.certificate is not None:
            self.certificate.reload()
        else:
            # Its default action would end the proxy, and other servers read their files again at this signal.
            log.info("SIGHUP: no certificate is served; fleet files and tables are followed without a signal")

    def _on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._handover.forward_signal(number):
            return
        if self._signalled.is_set():
            log.warning("%s again: leaving at once", name)
            self._forced.set()
        else:
            sd_notify.notify("STOPPING=1")
            self.rolling.stop()
            self.upgrade.cancel()
            self._begin_drain()
            # Last: whoever reads it may rely on it, though this process be killed in the next moment.
            log.info("%s: draining for at most %g s", name, self.options.drain_s)

    def _begin_drain(self) -> None:
        self.draining = True
        if self._handover.successor is None:
            self._orphaned.drain(self._listeners, followed=False)
        self._signalled.set()
        self._broadcast(Drain())

    async def _drain(self, workers: Sequence[asyncio.Future[None]]) -> int:
        """Let requests finish. Returns the exit status: 0, or 1 after a second signal."""
        deadline = time.monotonic() + self.options.drain_s
        successor = self._handover.successor
        followed = successor is not None
        if not followed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.options.min_drain_s):
                    await self._forced.wait()
        for worker in self.supervised:
            worker.stop_restarting()
        quiet_s = quiet_time_s(followed, self.options.drain_s)
        self._stop = StopAccepting(quiet_s=quiet_s, followed=followed)
        self._broadcast(self._stop)
        self._close_listeners()
        ends: list[Coroutine[Any, Any, Any]] = [self._forced.wait(), self._all_gone(workers)]
        if successor is not None:
            ends.append(self._successor_lost(successor))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await first_of(*ends)
        if self._forced.is_set():
            return 1
        left = sum(process.pid is not None for worker in self.supervised for process in worker.processes)
        if left:
            log.warning("%d workers still had requests in flight after %g s", left, self.options.drain_s)
        log.info("drained")
        return 0

    async def _successor_lost(self, successor: Successor) -> None:
        """Return when the successor has ended in haste, or by an error. One that has drained leaves the time
        to do the same; one that was killed leaves its workers to the next master, and so does this one."""
        status = await successor.gone()
        if status == 0:
            await asyncio.Event().wait()
        if status == EXIT_ABANDONED or status > KILLED_BY_SIGNAL:
            words = "the master that has taken over has ended (status %d): the workers finish by themselves"
            log.error(words, status)
            self._abandon_workers()

    async def _all_gone(self, workers: Sequence[asyncio.Future[None]]) -> None:
        await all_of(workers)
        await self._handover.predecessor_finished()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()


def _view(worker: SupervisedWorker, process: WorkerProcess) -> WorkerStatus:
    report, age_s = process.report, process.report_age_s
    return WorkerStatus(worker.index, process.pid, process.serving, worker.restarts, report, age_s)
