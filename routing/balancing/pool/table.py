"""Routing table of one worker: makes pools of snapshots, and finds a pool by name, alias or adapter.

``(epoch, version)`` orders tables. Older ones are ignored. Invalid ones are refused with a message, and the
last good one stays. Only a manifest removes fleets. Replicas whose uid and URL match keep their live state
over every swap.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from routing.balancing.admission.admission_queue import NullWaker, QueueWaker
from routing.balancing.admission.memory_leases import MemoryLeases
from routing.balancing.pool.pool import Pool
from routing.contract.client_keys import salt_bytes
from routing.contract.matches import MatchIndex
from routing.contract.policy import Limits, Timeouts
from routing.contract.table import FleetSnapshot, Manifest, Version
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters


class TableRefused(Exception):
    """A manifest or snapshot cannot be routed from; the text says why. The last good one is kept."""


class Bounds(NamedTuple):
    """What the most generous fleet allows: the bounds for a request whose fleet is not known yet."""

    head_s: float
    max_body_bytes: int


class Table:
    """The routing table of one worker."""

    def __init__(self, shared: SharedCounters | None = None, rng: Random | None = None) -> None:
        self._shared = shared
        self._rng = rng or Random()
        self.quota_share = QuotaShare()
        """This proxy's share of each limit. This object is never replaced."""
        self.site = ""
        """This proxy's site, for pools that are made from now on; empty: sites do not matter."""
        self.manifest = Manifest(epoch=0, version=0)
        self.fleets: dict[str, Pool] = {}
        self.by_name: dict[str, Pool] = {}
        """The pools by every name that clients may use: name, alias or adapter."""
        self.default: Pool | None = None
        self.matches: MatchIndex | None = None
        """The manifest's matches of host and path; ``None``: none. Replaced only if they change."""
        self.memory = MemoryLeases(shared, self.quota_share)
        self.on_manifest: Callable[[], None] = _do_nothing
        """Called after each manifest that was applied."""
        self.on_snapshot: Callable[[Pool], None] = _ignore_pool
        """Called with its pool after each snapshot that was applied."""
        self._waker: QueueWaker = NullWaker()
        self._bounds: Bounds | None = None

    @property
    def shared(self) -> SharedCounters | None:
        """The block in which workers of the host see each other's counts."""
        return self._shared

    @property
    def version(self) -> Version:
        """Version of the manifest; ``0:0`` before the first one."""
        return Version(self.manifest.epoch, self.manifest.version)

    @property
    def bounds(self) -> Bounds:
        """The most generous fleet's bounds; without any fleet, the defaults."""
        if self._bounds is None:
            policies = [pool.policy for pool in self.fleets.values()]
            self._bounds = Bounds(
                max((one.timeouts.head_s for one in policies), default=Timeouts().head_s),
                max((one.limits.max_body_bytes for one in policies), default=Limits().max_body_bytes),
            )
        return self._bounds

    def set_waker(self, waker: QueueWaker) -> None:
        """Set what wakes queued requests, in these pools and in later ones."""
        self._waker = waker
        for pool in self.fleets.values():
            pool.admission.waker = waker

    def apply_manifest(self, manifest: Manifest) -> bool:
        """Apply a newer manifest: remove fleets it does not list, update names. False: it is not newer.

        Raises TableRefused, and changes nothing, when its names contradict each other.
        """
        if Version(manifest.epoch, manifest.version) <= self.version:
            return False
        check_manifest(manifest)
        if manifest.matches != self.manifest.matches:
            self.matches = MatchIndex(manifest.matches) if manifest.matches else None
        self.manifest = manifest
        for name in [name for name in self.fleets if name not in manifest.fleets]:
            pool = self.fleets.pop(name)
            pool.close()
            self.memory.take_fleet(name, (), pool.admission.memory_freed)
        self.memory.take_devices(manifest.accelerators)
        self._bounds = None
        self._index()
        self.on_manifest()
        return True

    def apply_snapshot(self, snapshot: FleetSnapshot) -> bool:
        """Apply a newer snapshot of one fleet. False: not newer, or the manifest does not list the fleet.

        Before the first manifest any fleet is accepted. Raises TableRefused, and changes nothing, when it
        cannot be routed from.
        """
        name = snapshot.name
        if self.version > (0, 0) and name not in self.manifest.fleets:
            return False
        pool = self.fleets.get(name)
        if pool is not None and (snapshot.epoch, snapshot.version) <= pool.version:
            return False
        try:
            if pool is None:
                self.fleets[name] = pool = Pool(
                    snapshot, self._shared, self._rng, self.quota_share, self.site
                )
                pool.admission.waker = self._waker
                self._index()
            else:
                pool.replace(snapshot)
        except ValueError as error:
            raise TableRefused(
                f"fleet {name}, version {snapshot.epoch}:{snapshot.version}: {error}"
            ) from error
        self.memory.take_fleet(name, pool.replicas, pool.admission.memory_freed)
        self._bounds = None
        self.on_snapshot(self.fleets[name])
        return True

    def _index(self) -> None:
        """Names win over aliases and adapters, so that a new one never hides a fleet."""
        fleets, manifest = self.fleets, self.manifest
        aliases = {alias: fleets[name] for alias, name in manifest.aliases.items() if name in fleets}
        adapters = {name: fleets[fleet] for name, fleet in manifest.adapters.items() if fleet in fleets}
        self.by_name = {**adapters, **aliases, **fleets}
        self.default = fleets.get(manifest.default) if manifest.default is not None else None

    def __repr__(self) -> str:
        return f"<Table {self.version}: {', '.join(self.fleets) or 'no fleets'}>"


def check_manifest(manifest: Manifest) -> None:
    """Raise TableRefused when names contradict each other or client keys cannot be checked."""
    words = f"manifest {manifest.epoch}:{manifest.version}"
    if manifest.default is not None and manifest.default not in manifest.fleets:
        raise TableRefused(f"{words}: the default fleet {manifest.default!r} is not among its fleets")
    for alias, name in manifest.aliases.items():
        if name not in manifest.fleets:
            raise TableRefused(f"{words}: alias {alias!r} stands for {name!r}, which is not among its fleets")
    for adapter, name in manifest.adapters.items():
        if name not in manifest.fleets:
            raise TableRefused(f"{words}: adapter {adapter!r} is of {name!r}, which is not among its fleets")
    for name in manifest.matches:
        if name not in manifest.fleets:
            raise TableRefused(f"{words}: hosts or paths lead to {name!r}, which is not among its fleets")
    if manifest.key_hashes:
        try:
            salt_bytes(manifest.key_salt)
        except ValueError as error:
            why = f"no client key can be checked, key_salt is not valid: {error}"
            raise TableRefused(f"{words}: {why}") from None


def _do_nothing() -> None:
    """The default callback: does nothing."""


def _ignore_pool(pool: Pool) -> None:
    """The default callback: does nothing."""
