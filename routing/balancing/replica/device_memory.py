"""Device memory (GPU): what an accelerator can lend to requests, and what they have leased of it.

The theory is in :mod:`routing.balancing.admission.memory_leases`, which also keeps these in step with the
table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from routing.contract.accelerators import shown_bytes, usable_bytes
from routing.contract.table import AcceleratorSpec
from routing.contract.telemetry import AcceleratorCounters
from routing.shared.limits import take
from routing.shared.shm_counters import CounterCells

# Fields of a device's cell.
LEASED_BYTES = 0
RESERVED_BYTES = 1
"""For the one of this worker that has waited longest, of those for whom memory is kept free; 0: nobody."""
RESERVED_SINCE = 2
"""When that one began to wait."""


@dataclass(slots=True)
class Demand:
    """What a request asks of memory, and since when it waits."""

    work: float
    since: float = inf
    """When it began to wait; a newcomer comes after all that have."""


class Device:
    """One accelerator as one worker sees it."""

    __slots__ = (
        "capacity",
        "cells",
        "freed",
        "held",
        "leased",
        "name",
        "reserved",
        "share_of",
        "spec",
        "waits",
    )

    def __init__(self, name: str, share_of: Callable[[int], int]) -> None:
        """``share_of``: this proxy's part of an amount."""
        self.name = name
        self.share_of = share_of
        self.spec: AcceleratorSpec | None = None
        """``None``: the manifest does not list it (yet), so that nothing is known of its size."""
        self.held: dict[str, int] = {}
        """Fleet with replicas on it → what they hold all the time."""
        self.capacity = 0
        """What it can lend at one time, by all proxies."""
        self.leased = 0
        """By requests of this worker."""
        self.waits = 0
        self.reserved: dict[object, tuple[float, int]] = {}
        """Who is to have memory here as soon as there is enough → since when it waits, and how much."""
        self.cells: CounterCells | None = None
        self.freed: dict[str, Callable[[], None]] = {}
        """Fleet whose requests lease here → called when a lease has ended, whichever fleet's it was."""

    def resize(self) -> None:
        """Its size, or what is on it, has changed."""
        held = sum(self.held.values())
        self.capacity = 0 if self.spec is None else max(0, usable_bytes(self.spec) - held)

    @property
    def limit(self) -> float:
        """What this proxy can lend at one time."""
        return float("inf") if self.spec is None else self.share_of(self.capacity)

    def free(self, since: float = inf) -> float:
        """What could be lent now to a request that waits since then."""
        siblings = 0.0 if self.cells is None else self.cells.siblings_sum(LEASED_BYTES)
        return max(0.0, self.limit - self._kept_from(since) - self.leased - siblings)

    def take(self, amount: int, since: float) -> bool:
        """Lend so much, if there is as much for a request that waits since then."""
        limit = self.limit - self._kept_from(since)
        if self.cells is not None:
            granted = take(self.cells, LEASED_BYTES, amount, limit)
        else:
            granted = self.leased + amount <= limit
        if granted:
            self.leased += amount
        return granted

    def undo(self, amount: int) -> None:
        """What :meth:`take` has lent was not used."""
        self.leased -= amount
        self.show()

    def give_back(self, amount: int) -> None:
        """Whoever has leased it needs it no more."""
        self.undo(amount)
        for freed in self.freed.values():
            freed()

    def reserve(self, holder: object, since: float, amount: int) -> None:
        """Keep so much free for this request: of what is there already, and of what is given back."""
        self.reserved[holder] = (since, amount)
        self.show()

    def unreserve(self, holder: object) -> None:
        """It waits no longer."""
        if self.reserved.pop(holder, None) is not None:
            self.show()
            for freed in self.freed.values():
                freed()

    def _kept_from(self, since: float) -> float:
        """What is kept free for those that have waited longer, of each worker the one that has longest."""
        kept = 0.0
        if self.reserved:
            began, amount = min(self.reserved.values())
            kept += amount if began < since else 0
        cells = self.cells
        if cells is not None:
            view = cells.view
            for sibling in cells.siblings:
                if view[sibling + RESERVED_BYTES] and view[sibling + RESERVED_SINCE] < since:
                    kept += view[sibling + RESERVED_BYTES]
        return kept

    def counters(self) -> AcceleratorCounters:
        """For a worker's report."""
        leasable = 0 if self.spec is None else self.share_of(self.capacity)
        return AcceleratorCounters(
            name=self.name, leased_bytes=self.leased, leasable_bytes=leasable, lease_waits=self.waits
        )

    def show(self) -> None:
        """Write what is leased, and for whom it is kept free, where the other workers see it."""
        cells = self.cells
        if cells is not None:
            since, amount = min(self.reserved.values(), default=(0.0, 0))
            cells.write(LEASED_BYTES, self.leased)
            cells.write(RESERVED_SINCE, since)
            cells.write(RESERVED_BYTES, amount)

    def __repr__(self) -> str:
        return f"<Device {self.name} {self.leased} leased, {self.free():g} of {self.limit:g} free>"


class Lease(NamedTuple):
    """What one request has reserved: so many bytes on each of these."""

    devices: Sequence[Device]
    amount: int


class ReplicaMemory:
    """Memory that requests at one replica lease. Kept over table swaps, with the leases in force."""

    __slots__ = ("_claimed", "_leases", "devices", "per_request", "per_work", "was_short")

    def __init__(self) -> None:
        self.devices: tuple[Device, ...] = ()
        self.per_request = 0
        self.per_work = 0.0
        self.was_short = False
        """Whether the last claim has failed."""
        self._claimed: Lease | None = None
        self._leases: dict[object, Lease] = {}

    def need(self, work: float) -> int:
        """Bytes that a request takes on each device."""
        return ceil(self.per_request + self.per_work * work)

    def claim(self, demand: Demand) -> bool:
        """Lease on all devices or on none; False: one of them does not have as much. Whoever claims calls
        :meth:`hold` or :meth:`unclaim` next, before anything else runs."""
        amount = self.need(demand.work)
        for count, device in enumerate(self.devices):
            if not device.take(amount, demand.since):
                for taken in self.devices[:count]:
                    taken.undo(amount)
                self.was_short = True
                return False
        self.was_short = False
        self._claimed = Lease(self.devices, amount)
        return True

    def unclaim(self) -> None:
        """What was claimed is not needed."""
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            for device in claimed.devices:
                device.undo(claimed.amount)

    def hold(self, holder: object) -> None:
        """Keep what was claimed until the holder gives it back."""
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            self._leases[holder] = claimed

    def pass_on(self, holder: object, to: object) -> None:
        """What one has leased is another's now."""
        lease = self._leases.pop(holder, None)
        if lease is not None:
            self._leases[to] = lease

    def give_back(self, holder: object) -> None:
        """The holder's request has ended. Nothing, where it began before requests leased anything here."""
        lease = self._leases.pop(holder, None)
        if lease is not None:
            for device in lease.devices:
                device.give_back(lease.amount)

    def short(self, demand: Demand) -> Device | None:
        """The first device that does not have as much as this request needs; ``None``: all have."""
        amount = self.need(demand.work)
        return next((device for device in self.devices if device.free(demand.since) < amount), None)

    def reserve(self, holder: object, demand: Demand) -> Sequence[Device]:
        """Keep memory free for one that has waited long. It goes to :meth:`Device.unreserve` of each of these
        when it waits no longer."""
        for device in self.devices:
            device.reserve(holder, demand.since, self.need(demand.work))
        return self.devices

    def fits_never(self, work: float) -> bool:
        """Whether the request would not fit even if nothing else ran."""
        amount = self.need(work)
        return any(device.limit < amount for device in self.devices)

    def why_not(self, demand: Demand) -> str:
        """Why a request is not sent there now, in words; empty: it could be."""
        amount = self.need(demand.work)
        needs = f"the request needs {shown_bytes(amount)}"
        for device in self.devices:
            limit = device.limit
            if limit < amount:
                part = " as this proxy's part" if limit < device.capacity else ""
                return f"its device {device.name} can lend {shown_bytes(limit)} at most{part}, {needs}"
        for device in self.devices:
            free = device.free(demand.since)
            if free < amount:
                return f"its device {device.name} has {shown_bytes(free)} free for leases, {needs}"
        return ""

    @property
    def is_idle(self) -> bool:
        return not self._leases
