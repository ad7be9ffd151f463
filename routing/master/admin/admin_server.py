"""Admin server (Envoy: admin interface): liveness and readiness, metrics, status, drain, restart, upgrade.

It works without the control plane. Nothing that it shows can be injected by a client's request.
"""

import asyncio
import json
import logging
import re
import socket
import time
from typing import Any, Protocol
from urllib.parse import unquote

from routing.contract.table import AcceleratorSpec
from routing.master.admin.accelerators import accelerator_rows, accelerator_statuses
from routing.master.admin.aggregate import RetiredCounters, aggregate_fleets, aggregate_keys
from routing.master.admin.certificate_status import CertificateStatus, certificate_row
from routing.master.admin.emergency_drain import EmergencyDrains, duration_s
from routing.master.admin.export_status import ExportStatus, export_row
from routing.master.admin.http_server import MAX_HEAD_BYTES, AdminRequest, AdminResponse, serve, text
from routing.master.admin.key_status import key_rows
from routing.master.admin.kv_event_status import KvEventStatus
from routing.master.admin.metrics import WorkerStatus, render
from routing.master.admin.restart_status import LeavingWorker, RestartStatus, leaving_rows
from routing.master.admin.status import fallback_rows, learned_rows, replica_rows, worker_rows
from routing.master.certificate_watcher import CertificateWatcher
from routing.master.rolling_restart import RollingRestart
from routing.master.supervised_worker import SupervisedWorker
from routing.master.table_cache import TableCache
from routing.master.upgrade.upgrade import Upgrade
from routing.master.worker_process import ReplicaStatesByFleet
from routing.worker.acceptor import BACKLOG

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""One more replaces the oldest, so that the master never runs out of descriptors."""
ACCEPTS_PER_TURN = 16
FINISH_S = 2.0
"""How long connections that were accepted before the listener was closed have for their responses."""
ACCEPTED_WITHIN_S = 0.02
"""After this, a connection that the event loop has accepted is one of the server's."""
_DRAIN = re.compile(r"/fleets/([^/]+)/replicas/([^/]+)/(drain|undrain)")


class KvEventSource(Protocol):
    """What tells which KV events are heard. The listener, which lies above this package, implements it."""

    def status(self) -> list[KvEventStatus]: ...


class ProxyControl(Protocol):
    """What the admin server shows and changes. The master, which lies above this package, implements it."""

    draining: bool
    totals: RetiredCounters
    drains: EmergencyDrains
    table: TableCache
    supervised: list[SupervisedWorker]
    certificate: CertificateWatcher | None
    rolling: RollingRestart
    upgrade: Upgrade

    @property
    def site(self) -> str: ...

    @property
    def kv_events(self) -> KvEventSource: ...
    def trace_export(self) -> ExportStatus | None: ...

    def workers(self) -> list[WorkerStatus]: ...
    def leaving(self) -> list[LeavingWorker]: ...
    def restart(self) -> str | None: ...
    def begin_upgrade(self) -> str | None: ...
    def why_not_ready(self) -> str | None: ...
    def send_overrides(self) -> None: ...


class AdminServer:
    """The admin listener of one proxy."""

    def __init__(self, proxy: ProxyControl, listener: socket.socket) -> None:
        self._proxy = proxy
        self._listener = listener
        self._loopback = listener.getsockname()[0] in ("127.0.0.1", "::1")
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}
        """In order of arrival, each with the task that serves it."""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        # asyncio accepts up to ``backlog`` connections in one iteration, before any of them can be counted.
        self._server = await asyncio.start_server(
            self._connected, sock=self._listener, limit=MAX_HEAD_BYTES, backlog=ACCEPTS_PER_TURN
        )
        self._listener.listen(BACKLOG)

    async def finish(self) -> None:
        """Close the listener and finish what was accepted before. A successor, which has the same listener,
        serves what comes after."""
        if self._server is None:
            return
        # No more are accepted, and the server is closed only once it has those that were: asyncio makes no
        # transport for one that was accepted just before the close, and leaves its socket open and unread.
        if self._server.is_serving():
            asyncio.get_running_loop().remove_reader(self._listener)
        await asyncio.sleep(ACCEPTED_WITHIN_S)
        self._server.close()
        tasks = [task for task in self._connections.values() if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=FINISH_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        if len(self._connections) > MAX_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.close()
        try:
            await serve(reader, writer, self._answer, self._loopback)
        finally:
            self._connections.pop(writer, None)

    async def _answer(self, request: AdminRequest) -> AdminResponse:
        if request.method == "POST":
            return await self._post(request)
        if request.method != "GET":
            return text(405, "use GET or POST")
        match request.path:
            case "/livez":
                return text(200, "alive")
            case "/readyz":
                why_not_ready = self._proxy.why_not_ready()
                return text(200, "ready") if why_not_ready is None else text(503, why_not_ready)
            case "/metrics":
                return AdminResponse(200, "text/plain; version=0.0.4; charset=utf-8", self._metrics())
            case "/status":
                return _json(200, await self._status())
        if request.path in ("/restart", "/upgrade") or _DRAIN.fullmatch(request.path):
            return text(405, "use POST")
        return text(
            404,
            "paths: /livez, /readyz, /metrics, /status, and for POST /restart, /upgrade and"
            " /fleets/{fleet}/replicas/{replica}/drain",
        )

    async def _post(self, request: AdminRequest) -> AdminResponse:
        found = _DRAIN.fullmatch(request.path)
        proxy, path = self._proxy, request.path
        if found is None and path not in ("/restart", "/upgrade"):
            words = "POST to /restart, /upgrade, /fleets/{fleet}/replicas/{replica}/drain or …/undrain"
            return text(404, words)
        if not request.peer_is_loopback:
            return text(403, "changes are accepted from this machine only")
        if found is not None:
            return await self._drain(found, request.query)
        refusal = proxy.restart() if path == "/restart" else proxy.begin_upgrade()
        if refusal is not None:
            return text(409, refusal)
        return _json(202, {"rolling_restart": proxy.rolling.status(), "upgrade": proxy.upgrade.status()})

    async def _drain(self, found: re.Match[str], query: str) -> AdminResponse:
        fleet, replica = unquote(found[1]), unquote(found[2])
        unknown = self._why_unknown(fleet, replica)
        if unknown is not None:
            return text(404, unknown)
        answer: dict[str, Any] = {"fleet": fleet, "replica": replica}
        if found[3] == "drain":
            try:
                for_s = duration_s(query)
            except ValueError as error:
                return text(400, str(error))
            self._proxy.drains.drain(fleet, replica, time.monotonic(), for_s)
            log.warning("emergency drain of replica %s of fleet %s for %.0f s", replica, fleet, for_s)
            answer |= {"drained": True, "expires_in_s": round(for_s)}
        elif query:
            return text(400, "undrain takes no query: it ends the drain now")
        else:
            if self._proxy.drains.undrain(fleet, replica):
                log.warning("the emergency drain of replica %s of fleet %s has ended", replica, fleet)
            answer |= {"drained": False}
        self._proxy.send_overrides()
        return _json(200, answer | await self._asked_now(fleet))

    async def _asked_now(self, fleet: str) -> dict[str, Any]:
        """Which replicas get this fleet's requests now. Workers receive an override before this question."""
        answers = [answer for answer in await self._replica_states() if answer is not None]
        if not answers:
            return {"asked_now": None}
        states = [state for answer in answers for state in answer.get(fleet, ())]
        asked = sorted({state.name for state in states if state.asked})
        if asked:
            return {"asked_now": asked}
        reasons = {state.name: "; ".join(state.reasons) for state in states}
        why = ". ".join(f"{name}: {words}" for name, words in sorted(reasons.items()))
        nowhere = f"no replica of fleet {fleet} gets requests at this proxy now, so its requests wait or fail"
        warning = f"{nowhere}. {why}"
        return {"asked_now": [], "warning": warning}

    def _why_unknown(self, fleet: str, replica: str) -> str | None:
        known = self._proxy.table.snapshots
        if fleet not in known:
            return f"no fleet {fleet!r}; there are: {', '.join(sorted(known)) or 'none'}"
        names = [spec.name for spec in known[fleet].replicas]
        if replica not in names:
            return f"fleet {fleet} has no replica {replica!r}; it has: {', '.join(names) or 'none'}"
        return None

    def _metrics(self) -> bytes:
        proxy = self._proxy
        snapshots = [snapshot for _, snapshot in sorted(proxy.table.snapshots.items())]
        now, certificate = time.monotonic(), self._certificate()
        drained = {(one.fleet, one.replica): one.expires_at - now for one in proxy.drains.all()}
        rolling = proxy.rolling
        return render(
            proxy.workers(),
            proxy.totals,
            proxy.draining,
            snapshots,
            drained,
            certificate,
            self._accelerators(),
            RestartStatus(
                rolling.under_way, rolling.replaced, rolling.failed, proxy.leaving(), proxy.upgrade.failed
            ),
            proxy.kv_events.status(),
            proxy.trace_export(),
        )

    def _accelerators(self) -> list[AcceleratorSpec]:
        manifest = self._proxy.table.manifest
        return [] if manifest is None else manifest.accelerators

    def _certificate(self) -> CertificateStatus | None:
        files = self._proxy.certificate
        if files is None:
            return None
        in_force = files.in_force
        alarm = files.alarm(time.time())
        return CertificateStatus(in_force.expires_at, in_force.fingerprint, alarm, files.refused)

    async def _replica_states(self) -> list[ReplicaStatesByFleet | None]:
        """The replica states of each worker; ``None``: it is gone or too slow."""
        return await asyncio.gather(*(worker.current.replica_states() for worker in self._proxy.supervised))

    async def _status(self) -> dict[str, Any]:
        proxy, now = self._proxy, time.monotonic()
        answers = await self._replica_states()
        drains = proxy.drains.all()
        manifest = proxy.table.manifest
        certificate = self._certificate()
        kv_events = {(one.fleet, one.replica): one for one in proxy.kv_events.status()}
        found = [worker.report for worker in proxy.workers()] + [one.report for one in proxy.leaving()]
        reports = [report for report in found if report is not None]
        counted = {fleet.name: fleet for fleet in aggregate_fleets(proxy.totals, reports)}
        return {
            "ready": proxy.why_not_ready() is None,
            "why": proxy.why_not_ready() or "",
            "draining": proxy.draining,
            "site": proxy.site,
            "manifest": None if manifest is None else f"{manifest.epoch}:{manifest.version}",
            "certificate": None if certificate is None else certificate_row(certificate, time.time()),
            "workers": worker_rows(proxy.workers(), [worker.current.manifest for worker in proxy.supervised]),
            "leaving_workers": leaving_rows(proxy.leaving()),
            "rolling_restart": proxy.rolling.status(),
            "upgrade": proxy.upgrade.status(),
            "traces": export_row(proxy.trace_export()),
            "client_keys": key_rows(aggregate_keys(proxy.totals, reports)),
            "fleets": {
                name: {
                    "version": f"{snapshot.epoch}:{snapshot.version}",
                    "revision": snapshot.revision,
                    "strategy": snapshot.policy.strategy,
                    "fallbacks": fallback_rows(snapshot, counted.get(name)),
                    "learned": learned_rows(name, proxy.workers()),
                    "replicas": replica_rows(
                        name, snapshot, answers, proxy.workers(), drains, now, kv_events
                    ),
                }
                for name, snapshot in sorted(proxy.table.snapshots.items())
            },
            "accelerators": accelerator_rows(
                accelerator_statuses(self._accelerators(), proxy.totals, reports)
            ),
            "emergency_drains": [
                {"fleet": d.fleet, "replica": d.replica, "expires_in_s": round(d.expires_at - now)}
                for d in drains
            ],
        }


def _json(status: int, content: dict[str, Any]) -> AdminResponse:
    return AdminResponse(status, "application/json", json.dumps(content, indent=2).encode() + b"\n")
