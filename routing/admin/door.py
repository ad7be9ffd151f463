"""The parent's admin door: probes, metrics, status, and an emergency drain.

It works with the control plane gone, and says nothing that a request of a client could change.
"""

import asyncio
import json
import logging
import re
import socket
import time
from typing import Any, Protocol
from urllib.parse import unquote

from routing.admin.accelerators import accelerator_rows, accelerator_views
from routing.admin.certificate_view import CertificateView, status_of
from routing.admin.emergency_drain import EmergencyDrains, lasts_s
from routing.admin.http import MAX_HEAD_BYTES, AdminRequest, AdminResponse, serve, text
from routing.admin.key_view import key_rows
from routing.admin.metrics import WorkerView, render
from routing.admin.report_sums import Totals, merge_keys
from routing.admin.restart_view import LeavingWorker, RestartView, leaving_rows
from routing.admin.status import learned_rows, replica_rows, worker_rows
from routing.contract.table import AcceleratorSpec
from routing.parent.certificate_files import CertificateFiles
from routing.parent.kept_table import KeptTable
from routing.parent.listeners import BACKLOG
from routing.parent.rolling_restart import RollingRestart
from routing.parent.worker_process import Answer
from routing.parent.worker_slot import WorkerSlot

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
"""One more takes the place of the oldest, so that the parent never runs out of descriptors."""
MOST_A_TURN = 16
_DRAIN = re.compile(r"/fleets/([^/]+)/replicas/([^/]+)/(drain|undrain)")


class Upgrade(Protocol):
    """Another parent in the place of this one."""

    failed: int

    @property
    def under_way(self) -> bool: ...
    def status(self) -> dict[str, Any]: ...


class Proxy(Protocol):
    """What the door shows and moves."""

    draining: bool
    totals: Totals
    drains: EmergencyDrains
    table: KeptTable
    slots: list[WorkerSlot]
    certificate: CertificateFiles | None
    rolling: RollingRestart

    @property
    def site(self) -> str: ...
    @property
    def upgrade(self) -> Upgrade: ...

    def workers(self) -> list[WorkerView]: ...
    def leaving(self) -> list[LeavingWorker]: ...
    def restart(self) -> str | None: ...
    def begin_upgrade(self) -> str | None: ...
    def unready(self) -> str | None: ...
    def tell_overrides(self) -> None: ...


class AdminDoor:
    """The admin listener of one proxy."""

    def __init__(self, proxy: Proxy, listener: socket.socket) -> None:
        self._proxy = proxy
        self._listener = listener
        self._loopback = listener.getsockname()[0] in ("127.0.0.1", "::1")
        self._connections: dict[asyncio.StreamWriter, None] = {}
        """In the order of their coming."""

    async def run(self) -> None:
        """Answer until cancelled."""
        # asyncio takes as many a turn as its backlog says, before any of them can be counted.
        server = await asyncio.start_server(
            self._connected, sock=self._listener, limit=MAX_HEAD_BYTES, backlog=MOST_A_TURN
        )
        self._listener.listen(BACKLOG)
        async with server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = None
        if len(self._connections) > MOST_CONNECTIONS:
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
                unready = self._proxy.unready()
                return text(200, "ready") if unready is None else text(503, unready)
            case "/metrics":
                return AdminResponse(200, "text/plain; version=0.0.4; charset=utf-8", self._metrics())
            case "/status":
                return _json(200, await self._status())
        if request.path in ("/restart", "/upgrade") or _DRAIN.fullmatch(request.path):
            return text(405, "use POST")
        return text(
            404,
            "here are /livez, /readyz, /metrics, /status, and for POST /restart, /upgrade and"
            " /fleets/{fleet}/replicas/{replica}/drain",
        )

    async def _post(self, request: AdminRequest) -> AdminResponse:
        found = _DRAIN.fullmatch(request.path)
        proxy, path = self._proxy, request.path
        if found is None and path not in ("/restart", "/upgrade"):
            words = "POST to /restart, /upgrade, /fleets/{fleet}/replicas/{replica}/drain or …/undrain"
            return text(404, words)
        if not request.peer_is_loopback:
            return text(403, "what changes anything is taken from this machine only")
        if found is not None:
            return await self._drain(found, request.query)
        refusal = proxy.restart() if path == "/restart" else proxy.begin_upgrade()
        if refusal is not None:
            return text(409, refusal)
        return _json(202, {"rolling_restart": proxy.rolling.status(), "upgrade": proxy.upgrade.status()})

    async def _drain(self, found: re.Match[str], query: str) -> AdminResponse:
        fleet, replica = unquote(found[1]), unquote(found[2])
        unknown = self._unknown(fleet, replica)
        if unknown is not None:
            return text(404, unknown)
        answer: dict[str, Any] = {"fleet": fleet, "replica": replica}
        if found[3] == "drain":
            try:
                for_s = lasts_s(query)
            except ValueError as error:
                return text(400, str(error))
            self._proxy.drains.drain(fleet, replica, time.monotonic(), for_s)
            log.warning("replica %s of fleet %s is drained by hand for %.0f s", replica, fleet, for_s)
            answer |= {"drained": True, "expires_in_s": round(for_s)}
        elif query:
            return text(400, "undrain takes no query: it ends the drain now")
        else:
            if self._proxy.drains.undrain(fleet, replica):
                log.warning("replica %s of fleet %s is no longer drained by hand", replica, fleet)
            answer |= {"drained": False}
        self._proxy.tell_overrides()
        return _json(200, answer | await self._left(fleet))

    async def _left(self, fleet: str) -> dict[str, Any]:
        """Which replicas requests of this fleet go to now; workers hear of an override before they say so."""
        answers = [answer for answer in await self._explain() if answer is not None]
        if not answers:
            return {"asked_now": None}
        states = [state for answer in answers for state in answer.get(fleet, ())]
        asked = sorted({state.name for state in states if state.asked})
        if asked:
            return {"asked_now": asked}
        reasons = {state.name: "; ".join(state.reasons) for state in states}
        why = ". ".join(f"{name}: {words}" for name, words in sorted(reasons.items()))
        warning = (
            f"no replica of fleet {fleet} is asked at this proxy now, so its requests wait or fail. {why}"
        )
        return {"asked_now": [], "warning": warning}

    def _unknown(self, fleet: str, replica: str) -> str | None:
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
            RestartView(
                rolling.under_way, rolling.replaced, rolling.failed, proxy.leaving(), proxy.upgrade.failed
            ),
        )

    def _accelerators(self) -> list[AcceleratorSpec]:
        manifest = self._proxy.table.manifest
        return [] if manifest is None else manifest.accelerators

    def _certificate(self) -> CertificateView | None:
        files = self._proxy.certificate
        if files is None:
            return None
        in_force = files.in_force
        alarm = files.alarm(time.time())
        return CertificateView(in_force.expires_at, in_force.fingerprint, alarm, files.refused)

    async def _explain(self) -> list[Answer | None]:
        """Of each worker; ``None``: it is gone or too slow."""
        return await asyncio.gather(*(slot.present.explain() for slot in self._proxy.slots))

    async def _status(self) -> dict[str, Any]:
        proxy, now = self._proxy, time.monotonic()
        answers = await self._explain()
        drains = proxy.drains.all()
        manifest = proxy.table.manifest
        certificate = self._certificate()
        found = [worker.report for worker in proxy.workers()] + [one.report for one in proxy.leaving()]
        reports = [report for report in found if report is not None]
        return {
            "ready": proxy.unready() is None,
            "why": proxy.unready() or "",
            "draining": proxy.draining,
            "site": proxy.site,
            "manifest": None if manifest is None else f"{manifest.epoch}:{manifest.version}",
            "certificate": None if certificate is None else status_of(certificate, time.time()),
            "workers": worker_rows(proxy.workers(), [slot.present.manifest for slot in proxy.slots]),
            "leaving_workers": leaving_rows(proxy.leaving()),
            "rolling_restart": proxy.rolling.status(),
            "upgrade": proxy.upgrade.status(),
            "client_keys": key_rows(merge_keys(proxy.totals, reports)),
            "fleets": {
                name: {
                    "version": f"{snapshot.epoch}:{snapshot.version}",
                    "revision": snapshot.revision,
                    "strategy": snapshot.policy.strategy,
                    "learned": learned_rows(name, proxy.workers()),
                    "replicas": replica_rows(name, snapshot, answers, drains, now),
                }
                for name, snapshot in sorted(proxy.table.snapshots.items())
            },
            "accelerators": accelerator_rows(accelerator_views(self._accelerators(), proxy.totals, reports)),
            "emergency_drains": [
                {"fleet": d.fleet, "replica": d.replica, "expires_in_s": round(d.expires_at - now)}
                for d in drains
            ],
        }


def _json(status: int, content: dict[str, Any]) -> AdminResponse:
    return AdminResponse(status, "application/json", json.dumps(content, indent=2).encode() + b"\n")
