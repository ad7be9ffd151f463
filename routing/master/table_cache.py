"""Table cache of the master: the routing table that new workers begin with, and that is written to disk.

Workers read Redis; the master only keeps the newest table that they send it. So a worker that dies while
Redis is away is replaced by one that can route at once, and only one process writes the files.
"""

import asyncio
import logging
from collections.abc import Iterable

from routing.contract.table import FleetSnapshot, Manifest, Version
from routing.ipc.control_channel import Tables
from routing.master.disk_cache import DiskCache

log = logging.getLogger(__name__)

RETRY_EVERY_S = 5.0
"""After a failure to write the copy."""


class TableCache:
    """The newest manifest and snapshots that any worker has applied."""

    def __init__(self, disk: DiskCache | None) -> None:
        self.manifest: Manifest | None = None
        self.snapshots: dict[str, FleetSnapshot] = {}
        self._disk = disk
        self._dirty = asyncio.Event()

    def load(self) -> None:
        """Load what an earlier run has left on disk."""
        found = None if self._disk is None else self._disk.load()
        if found is not None:
            self.manifest, self.snapshots = found[0], {snapshot.name: snapshot for snapshot in found[1]}
            log.info("table %s loaded from disk", _version(self.manifest))

    def keep(self, manifest: Manifest | None, snapshots: Iterable[FleetSnapshot]) -> None:
        """Keep what is newer than what is kept so far."""
        if manifest is not None and (self.manifest is None or _version(manifest) > _version(self.manifest)):
            self.manifest = manifest
            self._dirty.set()
        for snapshot in snapshots:
            kept = self.snapshots.get(snapshot.name)
            if kept is None or _version(snapshot) > _version(kept):
                self.snapshots[snapshot.name] = snapshot
                self._dirty.set()
        if self.manifest is not None:
            for name in self.snapshots.keys() - self.manifest.fleets.keys():
                del self.snapshots[name]

    def message(self) -> Tables | None:
        """The message with the table, for a new worker; ``None``: there is no table yet."""
        if self.manifest is None:
            return None
        return Tables(manifest=self.manifest, snapshots=list(self.snapshots.values()))

    async def write_to_disk(self) -> None:
        """Write changes until cancelled. If the disk cannot be written, only the copy is old: it is tried
        again until it can."""
        failing = False
        while self._disk is not None:
            await self._dirty.wait()
            self._dirty.clear()
            if self.manifest is None:
                continue
            try:
                await asyncio.to_thread(self._disk.save, self.manifest, list(self.snapshots.values()))
            except OSError as problem:
                if not failing:
                    log.error("the table could not be copied to disk, the copy there is older: %s", problem)
                failing = True
                self._dirty.set()
                await asyncio.sleep(RETRY_EVERY_S)
            else:
                if failing:
                    log.info("the table is copied to disk again")
                failing = False


def _version(table: Manifest | FleetSnapshot) -> Version:
    return Version(table.epoch, table.version)
