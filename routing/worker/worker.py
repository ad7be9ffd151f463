"""Worker: an event loop that proxies requests, with its table and telemetry. See :mod:`routing.worker`."""

import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from types import ModuleType
from typing import TYPE_CHECKING, Any

import uvloop

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.contract import address_policy, protected_paths
from routing.contract.address_policy import AddressPolicy
from routing.contract.local_addresses import is_local
from routing.contract.snapshot_chunks import from_msgpack_in_steps
from routing.contract.table import FleetSnapshot, Manifest, Version
from routing.contract.trusted_proxies import TrustedProxies
from routing.ipc import listener_handover, logs
from routing.ipc.access_log import AccessLog
from routing.ipc.async_waits import first_of
from routing.ipc.control_channel import (
    Applied,
    Drain,
    EncodedTables,
    LimitsShared,
    NewCertificate,
    Overrides,
    QueryReplicaStates,
    ReplicaState,
    ReplicaStates,
    Serving,
    Siblings,
    StickyCorrection,
    StickyReply,
    StopAccepting,
    Tables,
    TelemetryReport,
    WorkerBootstrap,
    WorkerControlChannel,
    WorkerMessage,
    quiet_time_s,
)
from routing.proxy import Proxy
from routing.proxy.tracing.tracer import Tracer
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.shm_counters import SharedCounters
from routing.shared.totals_block import TotalsBlock
from routing.shared.worker_wakeup import WorkerWakeups
from routing.tls.certificate import Certificate, server_context
from routing.worker.acceptor import Acceptor
from routing.worker.allocator import map_large_buffers
from routing.worker.config.fleet_reports import AT_ONCE, refreshed
from routing.worker.config.reporter import Reporter
from routing.worker.config.slices import in_slices
from routing.worker.config.sticky_lookup import StickyLookup
from routing.worker.config.table_applier import TableApplier
from routing.worker.orphan import Orphan
from routing.worker.overload_monitor import OverloadMonitor
from routing.worker.trace_sender import TraceSender

if TYPE_CHECKING:
    from routing.worker.config.control_plane_client import ControlPlaneClient

log = logging.getLogger(__name__)

FIRST_TABLE_LIMIT_S = 2.0
"""How long a worker without a table waits before it accepts connections. After that clients get an error that
says so, which is better than a longer wait."""
ON_THE_PAGE = "make one on the page “Client keys”"
IN_THE_FILE = "name one under client_keys in the fleet file"
"""How to make a client key, with and without a control plane."""
IDLE_CHECK_EVERY_S = 0.02
LEAVE_LIMIT_S = 0.5


class Worker:
    """What one worker process runs."""

    def __init__(self, listener: socket.socket, counts: SharedCounters, wakeups: WorkerWakeups) -> None:
        self._rng = random.Random()
        self._applier = TableApplier(Table(counts, self._rng, in_slices=True), self._on_applied)
        self._proxy = Proxy(self._applier.table)
        self._acceptor = Acceptor(
            listener, self._proxy.connection, self._overload_response, self._count_refused
        )
        self._started: asyncio.Future[WorkerBootstrap] = asyncio.get_running_loop().create_future()
        self._has_table = asyncio.Event()
        self._leave: asyncio.Future[StopAccepting] = asyncio.get_running_loop().create_future()
        self._orphaned = asyncio.Event()
        self._orphan = Orphan(listener, self._leave_orphaned)
        self._serving = False
        self._channel = WorkerControlChannel(self._on_message, self._orphaned.set)
        self._counts = counts
        assert counts.worker is not None
        self._proxy.queue_scheduler.attach(wakeups, counts.worker)
        self._sticky_lookup = StickyLookup(self._channel.send)
        self._proxy.sticky_registry.join(self._sticky_lookup.share, self._sticky_lookup.find)
        self._updates: set[asyncio.Task[None]] = set()
        """Changes of the table that the master has sent and that are being applied."""
        self._draining = self._proxy_drains = False
        self._reporter: Reporter | None = None
        self._standalone = True
        self._control_plane: ControlPlaneClient | None = None
        self._traces: TraceSender | None = None

    async def run(self, control: socket.socket) -> None:
        """Serve until the master says to stop. When the master is killed, see :meth:`_outlive_master`."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self._channel, sock=control)
        await first_of(self._started, self._orphaned.wait())
        if not self._started.done():
            return
        start = self._started.result()
        logs.configure(start.log_level, f"worker/{start.index}", start.log_format)
        access_log = self._log_access(start)
        self._record_traces(start)
        self._proxy.begin_traces(start.trace_sample_percent)
        self._proxy.be_called(start.via_name)
        self._proxy.stand_behind(TrustedProxies(start.trusted_proxies), start.proxy_protocol)
        self._proxy.where_keys_are_made = IN_THE_FILE if start.redis_url is None else ON_THE_PAGE
        self._proxy.limit_bodies(start.bodies)
        if start.keys_required:
            self._proxy.require_keys(self._proxy.where_keys_are_made)
        tasks = self._begin(start)
        outlived = loop.create_task(self._outlive_master(start.drain_s))
        life = loop.create_task(self._serve())
        done, others = await asyncio.wait((life, outlived, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for task in done:
            task.result()
        if self._traces is not None:
            await self._traces.finish()
        if life in done:
            await self._deregister()
        if access_log is not None:
            access_log.close()
        self._channel.close()

    def _log_access(self, start: WorkerBootstrap) -> AccessLog | None:
        if start.access_log is None:
            return None
        access_log = AccessLog(start.access_log, start.log_format, f"proxy/worker/{start.index}")
        self._proxy.log_to(access_log)
        return access_log

    def _record_traces(self, start: WorkerBootstrap) -> None:
        if start.tracing is not None:
            tracer = Tracer(start.tracing, self._rng)
            self._proxy.trace_to(tracer)
            self._traces = TraceSender(tracer, self._channel)

    def _begin(self, start: WorkerBootstrap) -> list[asyncio.Task[Any]]:
        """Start the overload monitor, the reporter and, with a control plane, the connection to it."""
        loop = asyncio.get_running_loop()
        worker = f"{start.name}/{start.parent_pid}/{start.number}"
        overload = OverloadMonitor(self._proxy.connection_limit, start.max_connections)
        self._reporter = Reporter(
            worker, start.incarnation, self._applier, self._proxy, overload, self, self._rng
        )
        self._reporter.draining = self._draining
        works = (self._reporter.run(), overload.run(self._acceptor))
        tasks: list[asyncio.Task[Any]] = [loop.create_task(work) for work in works]
        if self._traces is not None:
            tasks.append(loop.create_task(self._traces.run()))
        if start.redis_url is not None:
            self._standalone = False
            tasks.append(loop.create_task(self._follow_redis(start.redis_url, worker)))
        return tasks

    async def _follow_redis(self, redis_url: str, worker: str) -> None:
        module = await asyncio.to_thread(_control_plane_module)
        freeze_garbage_collector()
        assert self._reporter is not None
        self._control_plane = module.ControlPlaneClient(
            redis_url, worker, self._applier, self._rng, self._reporter.send
        )
        self._sticky_lookup.store = store = self._control_plane.sticky_store
        store.on_stored_before = self._sticky_lookup.on_stored_before
        await self._control_plane.run()

    # --- for the reporter (reporter.ReportLink) ----------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._standalone or (self._control_plane is not None and self._control_plane.connected)

    @property
    def confirmed_at(self) -> float | None:
        if self._standalone:
            return time.monotonic()
        return None if self._control_plane is None else self._control_plane.confirmed_at

    async def report(self, report: bytes) -> None:
        self._channel.send(TelemetryReport(report=report))
        if self._control_plane is not None and await self._control_plane.report(report, self._proxy_drains):
            share = self._applier.table.quota_share
            log.info(
                "limits are shared out between %d proxies, of which this is number %d",
                share.count,
                share.position + 1,
            )
            self._channel.send(LimitsShared(position=share.position, count=share.count))

    # --- lifecycle ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TABLE_LIMIT_S):
                await self._has_table.wait()
        if not self._has_table.is_set():
            log.warning("there is no routing table yet; requests are refused until there is")
        freeze_garbage_collector()
        await self._acceptor.open()
        self._serving = True
        self._channel.send(Serving())
        leave = await self._leave
        self._orphan.close()
        await self._acceptor.close(leave.followed)
        while self._proxy.leave(leave.quiet_s):  # noqa: ASYNC110 (no event for this on the hot path)
            await asyncio.sleep(IDLE_CHECK_EVERY_S)

    async def _outlive_master(self, drain_s: float) -> None:
        """When the master was killed, serve on: until the master that is started next has workers that serve,
        or until SIGTERM; then finish, for at most ``drain_s``. Returns when this worker must end.
        """
        await self._orphaned.wait()
        if not (self._serving and listener_handover.is_supported()):
            return
        if self._draining:
            self._leave_orphaned(followed=False)
        if not self._leave.done():
            log.warning(
                "the master is gone; this worker serves on until another master takes over, or SIGTERM"
            )
            self._orphan.open()
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self._leave_orphaned)
        await asyncio.shield(self._leave)
        await asyncio.sleep(drain_s)
        log.warning("still had requests in flight %g s after it was to end", drain_s)

    def _leave_orphaned(self, followed: bool = False) -> None:
        """Accept no more connections, and end when nothing is in flight."""
        if self._leave.done():
            return
        log.info("draining: %s", "another master has taken over" if followed else "there is no master")
        self._drain(of_proxy=True)
        quiet_s = quiet_time_s(followed, self._started.result().drain_s)
        self._leave.set_result(StopAccepting(quiet_s=quiet_s, followed=followed))

    def _drain(self, of_proxy: bool) -> None:
        """Responses ask clients to close. ``of_proxy``: the proxy ends, not this worker alone."""
        self._draining, self._proxy_drains = True, of_proxy
        self._proxy.drain()
        if self._reporter is not None:
            self._reporter.draining = True

    def _overload_response(self) -> bytes:
        return self._proxy.refusal_unread

    def _count_refused(self) -> None:
        self._proxy.connection_limit.refuse_one(time.monotonic())

    async def _deregister(self) -> None:
        """Send a last report, and remove this worker from the lists of live workers."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_LIMIT_S):
                if self._reporter is not None:
                    await self._reporter.send()
                if self._control_plane is not None:
                    await self._control_plane.leave()

    def _on_message(self, message: WorkerMessage) -> None:
        match message:
            case WorkerBootstrap():
                if message.state_dir is not None:
                    protected_paths.protect(message.state_dir)
                address_policy.use(AddressPolicy(message.addresses, is_local))
                if message.certificate is not None:
                    self._use_certificate(message.certificate)
                self._applier.table.site = message.site
                self._share_prefixes(message.prefixes_fd)
                self._outlive_by(message.totals_fd)
                self._started.set_result(message)
            case EncodedTables():
                self._update(self._apply(message))
            case NewCertificate():
                self._use_certificate(message.certificate)
            case Overrides():
                self._update(self._applier.apply_emergency_drains(message.drained))
            case LimitsShared():
                self._applier.table.quota_share.set(message.position, message.count)
            case Siblings():
                self._counts.set_siblings(message.numbers)
            case Drain():
                self._drain(of_proxy=not message.alone)
            case StopAccepting():
                if not self._leave.done():
                    self._leave.set_result(message)
            case QueryReplicaStates():
                self._update(self._tell_states(message.question))
            case StickyReply():
                self._sticky_lookup.resolve(message)
            case StickyCorrection():
                self._proxy.sticky_registry.correct(message.name, message.replica_ref)
            case _:
                raise ValueError(f"the master sent a {type(message).__name__}")

    def _update(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._updates.add(task)
        task.add_done_callback(self._updated)

    def _updated(self, task: asyncio.Task[None]) -> None:
        self._updates.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a change of the table could not be applied", exc_info=problem)

    async def _apply(self, tables: EncodedTables) -> None:
        """Apply what is newer of the master's tables, while requests are served."""
        known = self._applier.fleet_version
        newer = [one for one in tables.snapshots if Version(one.epoch, one.version) > known(one.name)]
        snapshots = [await in_slices(from_msgpack_in_steps(encoded)) for encoded in newer]
        await self._applier.apply(tables.manifest, snapshots, from_master=True)

    async def _tell_states(self, question: int) -> None:
        """The reply shows what the master has sent before."""
        await self._applier.settled()
        pools = self._applier.table.fleets
        await refreshed(pools.values())
        fleets = {pool.name: await _states(pool) for pool in list(pools.values())}
        self._channel.send(ReplicaStates(question=question, fleets=fleets))

    def _share_prefixes(self, fd: int | None) -> None:
        """Without any, or with one of another version, each pool makes a memory of its own."""
        if fd is not None:
            with contextlib.suppress(OSError, ValueError):
                self._applier.table.prefixes = PrefixMemory(fd)

    def _outlive_by(self, fd: int | None) -> None:
        """Without a block, totals end with this process."""
        if fd is not None:
            with contextlib.suppress(OSError, ValueError):
                self._applier.table.totals = TotalsBlock(fd, self._counts.worker)

    def _use_certificate(self, certificate: Certificate) -> None:
        context = server_context(certificate.chain, certificate.key)
        self._proxy.speak_tls(context, certificate.expires_at)

    def _on_applied(
        self, manifest: Manifest | None, snapshots: list[FleetSnapshot], from_master: bool
    ) -> None:
        """The table has changed: report its version and, if it came from Redis, the table to the master."""
        if self._applier.manifest_version > (0, 0):
            self._has_table.set()
        self._channel.send(Applied(manifest=str(self._applier.manifest_version)))
        if not from_master:
            self._channel.send(Tables(manifest=manifest, snapshots=snapshots))


def _control_plane_module() -> ModuleType:
    """Imported here, in a thread, because the import takes longer than all the rest of a worker's start."""
    from routing.worker.config import control_plane_client

    return control_plane_client


async def _states(pool: Pool) -> list[ReplicaState]:
    found: list[ReplicaState] = []
    replicas = pool.replicas  # replaced with each table, never edited
    for said, replica in zip(pool.explained(time.monotonic()), replicas, strict=True):
        found.append(
            ReplicaState(
                name=said.name,
                url=replica.spec.url,
                in_flight=replica.in_flight,
                eligible=said.eligible,
                asked=said.asked,
                reasons=said.reasons,
            )
        )
        if len(found) % AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


def freeze_garbage_collector() -> None:
    """Exclude all present objects from garbage collection, because they stay.

    A collection over the modules and tables of a new worker takes some 20 ms, in which nothing else runs.
    """
    gc.collect()
    gc.freeze()


def ignore_signals() -> None:
    """A service manager signals the whole group, but the master decides when a worker drains and ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def exit_without_master(master_pid: int) -> None:
    """Exit if the master has ended already. Later its end is seen by the control channel."""
    if os.getppid() != master_pid:
        sys.exit(1)


async def _run(
    control: socket.socket, listener: socket.socket, counts: SharedCounters, wakeups: WorkerWakeups
) -> None:
    await Worker(listener, counts, wakeups).run(control)


def main() -> None:
    """Raises whatever ended the worker; the master then starts another."""
    control_fd, listener_fd, counts_fd, number, parent_pid, *wakeups = map(int, sys.argv[1:])
    ignore_signals()
    exit_without_master(parent_pid)
    map_large_buffers()
    logs.configure("info", f"worker/{number}")
    control, listener = socket.socket(fileno=control_fd), socket.socket(fileno=listener_fd)
    control.setblocking(False)
    uvloop.run(_run(control, listener, SharedCounters.attach(counts_fd, number), WorkerWakeups(wakeups)))
