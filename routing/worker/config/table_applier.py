"""Table applier: applies routing tables from any source: Redis, the master or the disk cache.

If a table is refused, the last good one stays in use. The reason is kept until a newer table is applied,
because reports and acknowledgements repeat it. Emergency drains at this proxy override every table of the
control plane, and are never written into the stored table.

A table of thousands of replicas takes too long to be applied at once. :meth:`TableApplier.apply`
prepares it in slices of a few milliseconds, between which the event loop serves requests, and swaps it in
then. Emergency drains of such a fleet are applied in the same way. One such change is made after the other.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from msgspec.structs import replace

from routing.balancing.learning import reported_load
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table, TableRefused
from routing.contract.load_report import decode_stored
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec, Version
from routing.contract.telemetry import Acknowledgement, EmergencyDrainReport
from routing.worker.config.slices import in_slices, no_full_collection

log = logging.getLogger(__name__)

NOTHING_APPLIED = Version(0, 0)

SLICED_ABOVE = 50
"""Replicas of all snapshots together: fewer are applied at once, in some 2 ms."""
REPORTS_AT_ONCE = 200
"""Load reports that are decoded at once: some 1 ms."""
DRAINED_AT_ONCE = 500
"""Replicas whose specs are made anew at once: some 1 ms."""


Changed = Callable[[Manifest | None, list[FleetSnapshot], bool], None]
"""Called with what was applied, and whether it came from the master."""


class TableApplier:
    """One worker's table and its refused updates."""

    def __init__(self, table: Table, changed: Changed) -> None:
        self.table = table
        self.refused_manifest = ""
        self.refused_fleets: dict[str, str] = {}
        """Fleet name → why its newest table was refused."""
        self._changed = changed
        self._applied: dict[str, FleetSnapshot] = {}
        self._drained: dict[tuple[str, str], float] = {}
        """Emergency drains: fleet and replica → when the drain ends, monotonic seconds."""
        self._drain_changes = 0
        self._lock = asyncio.Lock()
        """Held while something is applied in slices."""

    @property
    def manifest_version(self) -> Version:
        return self.table.version

    def fleet_version(self, name: str) -> Version:
        """Version of the table in use; ``0:0`` when there is none."""
        pool = self.table.fleets.get(name)
        return NOTHING_APPLIED if pool is None else pool.version

    async def apply(
        self, manifest: Manifest | None, snapshots: Sequence[FleetSnapshot], from_master: bool = False
    ) -> None:
        """Apply what is newer. Never raises for a bad table; see :attr:`refused_fleets`. Requests are served
        meanwhile, from the tables of before until all are swapped in, in one step."""
        large = sum(len(snapshot.replicas) for snapshot in snapshots) > SLICED_ABOVE
        async with self._lock:
            with no_full_collection():
                drained, drains = [], -1
                while drains != self._drain_changes:
                    drains = self._drain_changes
                    drained = [(one, await in_slices(self._with_drains(one))) for one in snapshots]
                    for _, snapshot in drained if large else ():
                        await in_slices(self.table.stage(snapshot))
                took_manifest, taken = self._swap(manifest, drained)
                if large:
                    await asyncio.sleep(0)
                if took_manifest or taken:
                    self._changed(manifest if took_manifest else None, taken, from_master)
                await in_slices(self.table.tidy())

    def _swap(
        self, manifest: Manifest | None, drained: Iterable[tuple[FleetSnapshot, FleetSnapshot]]
    ) -> tuple[bool, list[FleetSnapshot]]:
        """Whether the manifest was applied, and which snapshots were. ``drained``: each as it came, and with
        the emergency drains."""
        took_manifest = manifest is not None and self._apply_manifest(manifest)
        taken = [snapshot for snapshot, drained in drained if self._apply_snapshot(snapshot, drained)]
        for name in self._applied.keys() - self.table.fleets.keys():
            del self._applied[name]
        for name in self.refused_fleets.keys() - self.table.manifest.fleets.keys():
            del self.refused_fleets[name]
        return took_manifest, taken

    async def apply_emergency_drains(self, drained: Iterable[tuple[str, str, float]]) -> None:
        """Drain exactly these replicas: fleet, replica, and when that ends. Others are as the tables say."""
        fleets = self._drain(drained)
        async with self._lock:
            for fleet in fleets:
                snapshot = self._applied.get(fleet)
                if snapshot is not None:
                    await self._replace_in_slices(self.table.fleets[fleet], snapshot)

    async def settled(self) -> None:
        """Wait until what came before is applied."""
        async with self._lock:
            pass

    async def _replace_in_slices(self, pool: Pool, snapshot: FleetSnapshot) -> None:
        with no_full_collection():
            drained = await in_slices(self._with_drains(snapshot))
            pairs = await in_slices(pool.prepare(drained))
            pool.replace(drained, pairs, in_steps=True)

    def _drain(self, drained: Iterable[tuple[str, str, float]]) -> set[str]:
        """The fleets in which other replicas are drained than before."""
        before, self._drained = self._drained, {(fleet, replica): ends for fleet, replica, ends in drained}
        self._drain_changes += 1
        return {name for name, _ in before.keys() ^ self._drained.keys()}

    def emergency_drains(self, now: float) -> list[EmergencyDrainReport]:
        """The emergency drains, for the report."""
        return [
            EmergencyDrainReport(fleet=fleet, replica=replica, expires_in_s=max(0.0, ends - now))
            for (fleet, replica), ends in self._drained.items()
        ]

    def apply_load_reports(self, stored: Mapping[bytes, bytes], now_ms: int) -> Generator[None, None, None]:
        """Apply the load reports: by uid, as Redis has them at ``now_ms`` of its clock, in steps."""
        now, done = time.monotonic(), 0
        for pool in list(self.table.fleets.values()):
            for replica in pool.replicas:
                done += 1
                if done % REPORTS_AT_ONCE == 0:
                    yield
                text = stored.get(replica.uid.encode())
                report = None if text is None else decode_stored(text, now_ms)
                if report is not None:
                    reported_load.record(replica, report, now)

    def nothing_newer(self, fleet: str | None = None) -> None:
        """Redis holds nothing newer of this fleet, or no manifest (``None``): what was refused is gone."""
        if fleet is None:
            self.refused_manifest = ""
        else:
            self.refused_fleets.pop(fleet, None)

    def refuse_manifest(self, why: str) -> None:
        if why != self.refused_manifest:
            log.error("manifest refused, keeping version %s: %s", self.manifest_version, why)
        self.refused_manifest = why

    def refuse_fleet(self, name: str, why: str) -> None:
        if why != self.refused_fleets.get(name):
            kept = self.fleet_version(name)
            log.error("table of fleet %s refused, keeping version %s: %s", name, kept, why)
        self.refused_fleets[name] = why

    def manifest_acknowledgement(self) -> Acknowledgement:
        return Acknowledgement(applied=str(self.manifest_version), refused=self.refused_manifest)

    def fleet_acknowledgement(self, name: str) -> Acknowledgement:
        refused = self.refused_fleets.get(name, "")
        return Acknowledgement(applied=str(self.fleet_version(name)), refused=refused)

    def _apply_manifest(self, manifest: Manifest) -> bool:
        try:
            took = self.table.apply_manifest(manifest, in_steps=True)
        except TableRefused as refusal:
            self.refuse_manifest(str(refusal))
            return False
        self.refused_manifest = ""
        return took

    def _apply_snapshot(self, snapshot: FleetSnapshot, drained: FleetSnapshot) -> bool:
        try:
            took = self.table.apply_snapshot(drained, in_steps=True)
        except TableRefused as refusal:
            self.refuse_fleet(snapshot.name, str(refusal))
            return False
        except Exception as problem:
            # A bug: it must not keep the other fleets from their tables.
            log.exception("fleet %s", snapshot.name)
            self.refuse_fleet(snapshot.name, f"it could not be applied: {problem!r}")
            return False
        if took:
            self._applied[snapshot.name] = snapshot
        self.refused_fleets.pop(snapshot.name, None)
        return took

    def _with_drains(self, snapshot: FleetSnapshot) -> Generator[None, None, FleetSnapshot]:
        """The table with the replicas under an emergency drain as ``draining``, in steps."""
        names = {name for fleet, name in self._drained if fleet == snapshot.name}
        if not names:
            return snapshot
        replicas: list[ReplicaSpec] = []
        for at in range(0, len(snapshot.replicas), DRAINED_AT_ONCE):
            if at:
                yield
            some = snapshot.replicas[at : at + DRAINED_AT_ONCE]
            replicas += [_draining(one) if one.name in names else one for one in some]
        return replace(snapshot, replicas=replicas)


def _draining(spec: ReplicaSpec) -> ReplicaSpec:
    return replace(spec, admin_state="draining") if spec.admin_state == "active" else spec
