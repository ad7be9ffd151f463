"""Routing table of one worker: makes pools of snapshots, and finds a pool by name, alias or adapter.

``(epoch, version)`` orders tables. Older ones are ignored. Invalid ones and those of another installation are
refused with a message, and the last good one stays. Only a manifest removes fleets. Replicas whose uid and
URL match keep their live state over every swap.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from routing.balancing.admission.admission_queue import NullWaker, QueueWaker
from routing.balancing.admission.memory_leases import MemoryLeases
from routing.balancing.pool.endpoint_set import Pairs
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.shared_hosts import SharedHosts
from routing.balancing.replica.state import Replica
from routing.contract.client_keys import salt_bytes
from routing.contract.installation import objection
from routing.contract.matches import MatchIndex
from routing.contract.policy import Limits, Timeouts
from routing.contract.table import FleetSnapshot, Manifest, Version
from routing.shared.prefix_memory import PrefixMemory
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters
from routing.shared.totals_block import TotalsBlock


class TableRefused(Exception):
    """A manifest or snapshot cannot be routed from; the text says why. The last good one is kept."""


class Bounds(NamedTuple):
    """What the most generous fleet allows: the bounds for a request whose fleet is not known yet."""

    head_s: float
    max_body_bytes: int


class Staged(NamedTuple):
    """A snapshot that is ready to be applied."""

    snapshot: FleetSnapshot
    pool: Pool
    """Of the fleet, or a new one for it."""
    pairs: Pairs
    swaps: int

    def fits(self, snapshot: FleetSnapshot, pool: Pool | None) -> bool:
        """Whether it is this snapshot's, and its pool is as it was."""
        if self.snapshot is not snapshot or self.swaps != self.pool.swaps:
            return False
        return pool is self.pool or pool is None


class Table:
    """The routing table of one worker."""

    def __init__(
        self, shared: SharedCounters | None = None, rng: Random | None = None, in_slices: bool = False
    ) -> None:
        """``in_slices``: as for :class:`routing.balancing.pool.pool.Pool`."""
        self._in_slices = in_slices
        self._shared = shared
        self._rng = rng or Random()
        self.quota_share = QuotaShare()
        """This proxy's share of each limit. This object is never replaced."""
        self.site = ""
        """This proxy's site, for pools that are made from now on; empty: sites do not matter."""
        self.prefixes: PrefixMemory | None = None
        """The memory of prompts that the host's workers share, for pools that are made from now on; ``None``:
        each pool has its own."""
        self.totals: TotalsBlock | None = None
        """Where ended requests are counted so that they outlive the worker, for pools that are made from now
        on; ``None``: they do not."""
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
        self.on_narrowed: Callable[[Pool], None] = _ignore_pool
        """Called before that where the fleet may expose less than before."""
        self.on_hosts: Callable[[], None] = _do_nothing
        """Called when :attr:`host_names` may have changed."""
        self._waker: QueueWaker = NullWaker()
        self._bounds: Bounds | None = None
        self._staged: dict[str, Staged] = {}
        self._hosts = SharedHosts()
        self._closed: list[Pool] = []
        """Removed fleets that :meth:`tidy` is to look at."""

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

    def stage(self, snapshot: FleetSnapshot) -> Generator[None, None, None]:
        """Prepare a snapshot in steps, between which requests may be served; :meth:`apply_snapshot` with the
        same object then takes little time, however many replicas it has. Changes nothing that requests see,
        and raises nothing: what is wrong is said when it is applied."""
        name = snapshot.name
        self._unstage(name)
        present = self.fleets.get(name)
        if present is not None and (snapshot.epoch, snapshot.version) <= present.version:
            return
        with suppress(ValueError):
            pool = present or self._new_pool(replace(snapshot, replicas=[]), staged=True)
            try:
                pairs = yield from pool.prepare(snapshot)
            except BaseException:
                if present is None:
                    pool.close()
                raise
            yield from self._hosts.prepare(name, [spec.url for spec in snapshot.replicas])
            self._staged[name] = Staged(snapshot, pool, pairs, pool.swaps)

    def tidy(self) -> Generator[None, None, None]:
        """What was left to be done in steps, between which requests may be served."""
        closed, self._closed = self._closed, []
        for pool in (*closed, *self.fleets.values()):
            yield from pool.tidy()

    def apply_manifest(self, manifest: Manifest, in_steps: bool = False) -> bool:
        """Apply a newer manifest: remove fleets it does not list, update names. False: it is not newer.

        ``in_steps``: :meth:`tidy` follows.

        Raises TableRefused, and changes nothing, when its names contradict each other or it is of another
        installation.
        """
        self._check_origin(manifest, "manifest")
        if Version(manifest.epoch, manifest.version) <= self.version:
            return False
        check_manifest(manifest)
        if manifest.matches != self.manifest.matches:
            self.matches = MatchIndex(manifest.matches) if manifest.matches else None
        self.manifest = manifest
        for name in [name for name in self.fleets if name not in manifest.fleets]:
            self._unstage(name)
            pool = self.fleets.pop(name)
            pool.close(in_steps)
            if in_steps:
                self._closed.append(pool)
            self.memory.take_fleet(name, (), pool.admission.memory_freed)
            self._follow_hosts(name, ())
        self.memory.take_devices(manifest.accelerators)
        self._bounds = None
        self._index()
        self.on_manifest()
        return True

    def apply_snapshot(self, snapshot: FleetSnapshot, in_steps: bool = False) -> bool:
        """Apply a newer snapshot of one fleet. False: not newer, or the manifest does not list the fleet.

        ``in_steps``: :meth:`tidy` follows.

        Before the first manifest any fleet is accepted. Raises TableRefused, and changes nothing, when it
        cannot be routed from or is of another installation.
        """
        name = snapshot.name
        pool = self.fleets.get(name)
        staged = self._staged.get(name)
        if staged is None or not staged.fits(snapshot, pool):
            self._unstage(name)
            staged = None
        if self.version > (0, 0) and name not in self.manifest.fleets:
            self._unstage(name)
            return False
        try:
            self._check_origin(snapshot, f"fleet {name}")
        except TableRefused:
            self._unstage(name)
            raise
        if pool is not None and (snapshot.epoch, snapshot.version) <= pool.version:
            self._unstage(name)
            return False
        exposed = None if pool is None else pool.exposed
        try:
            if staged is not None:
                staged.pool.replace(snapshot, staged.pairs, in_steps)
                del self._staged[name]
            elif pool is not None:
                pool.replace(snapshot, None, in_steps)
            if pool is None:
                self.fleets[name] = pool = self._new_pool(snapshot) if staged is None else staged.pool
                pool.admission.waker = self._waker
                self._index()
        except ValueError as error:
            raise TableRefused(
                f"fleet {name}, version {snapshot.epoch}:{snapshot.version}: {error}"
            ) from error
        self.memory.take_fleet(name, pool.replicas, pool.admission.memory_freed)
        self._follow_hosts(name, pool.replicas)
        self._bounds = None
        if exposed is not None and pool.exposed.may_refuse_more(exposed):
            self.on_narrowed(pool)
        self.on_snapshot(self.fleets[name])
        return True

    @property
    def host_names(self) -> Collection[str]:
        """The names of replicas' hosts whose addresses say whether fleets share a host."""
        return self._hosts.names

    def host_found(self, host: str, addresses: tuple[str, ...]) -> None:
        """DNS has these addresses for a host."""
        self._share_hosts(self._hosts.found(host, addresses))

    def _follow_hosts(self, name: str, replicas: Iterable[Replica]) -> None:
        touched = self._hosts.take(name, [replica.spec.url for replica in replicas])
        if touched:
            self._share_hosts(touched)
            self.on_hosts()

    def _share_hosts(self, touched: Iterable[str]) -> None:
        for fleet in touched:
            if fleet in self.fleets:
                shared = self._hosts.is_shared(fleet)
                self.fleets[fleet].share_hosts(shared, self._hosts.further_down(fleet) if shared else ())

    def _new_pool(self, snapshot: FleetSnapshot, staged: bool = False) -> Pool:
        return Pool(
            snapshot,
            self._shared,
            self._rng,
            self.quota_share,
            self.site,
            staged,
            self._in_slices,
            self.prefixes,
            None if self.totals is None else self.totals.fleet(snapshot.name),
        )

    def _unstage(self, name: str) -> None:
        """What was staged of this fleet is not applied."""
        staged = self._staged.pop(name, None)
        if staged is not None:
            staged.pool.drop(staged.pairs)
            if self.fleets.get(name) is not staged.pool:
                staged.pool.close()

    def _check_origin(self, table: Manifest | FleetSnapshot, what: str) -> None:
        if why := objection(self.manifest, table):
            raise TableRefused(f"{what}, version {table.epoch}:{table.version}: {why}")

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
            if manifest.former_salt:
                salt_bytes(manifest.former_salt)
        except ValueError as error:
            why = f"no client key can be checked, key_salt is not valid: {error}"
            raise TableRefused(f"{words}: {why}") from None


def _do_nothing() -> None:
    """The default callback: does nothing."""


def _ignore_pool(pool: Pool) -> None:
    """The default callback: does nothing."""
