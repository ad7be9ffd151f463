"""Memory leases: what requests take on a shared device (GPU memory) is reserved before they are sent.

Theory. Each replica of a GPU server is sized as if it had its device for itself. Several of them together run
out of memory when all are busy: the process dies, with all its requests in flight. No replica can prevent
that, for none knows the others. The proxy sees all of them. A device lends

    memory_bytes · (1 − headroom) − Σ memory_bytes of the replicas on it, whatever their fleet

and a request leases ``request_bytes + request_bytes_per_work · work`` on each device of its replica, for as
long as it is in flight there. Without the lease it is not sent there. This is admission by reservation: a
request states all its needs before it begins, claims all of them or none, and holds nothing while it waits.
So no two requests can block each other (Coffman, Elphick & Shoshani, "System Deadlocks", 1971: without
hold-and-wait there is no deadlock). Small requests would overtake a large one for ever. So when a request has
waited half of its time, memory is kept free for it, and those that came later leave it that much. Of several
such requests, the one that has waited longest goes first, so that these cannot block each other either.

What is lent is summed over all workers of the host by cells in shared memory, "accelerator/NAME", and the
limit is kept as :mod:`routing.shared.limits` does. If a worker is killed, its leases are gone with its cells.

Failure modes: too little memory is declared, or a server frees memory late. A lease ends with the last byte
of the response, or when the proxy closes the connection because the client has left; what a server frees
after that must fit into the headroom. Requests that reach a replica past this proxy are not known here.
Several proxies share each device (:mod:`routing.shared.quota_share`): what one of them does not use is no use
to another, and a request that needs more than one proxy's part is rejected.
"""

from collections.abc import Callable, Iterable, Sequence

from routing.balancing.replica.device_memory import Demand, Device, ReplicaMemory
from routing.balancing.replica.state import Replica
from routing.contract.table import AcceleratorSpec
from routing.contract.telemetry import AcceleratorCounters
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import CapacityExhausted, SharedCounters

_SHOWN = 4


def why_short(fleet: str, replicas: Sequence[Replica], demand: Demand) -> str:
    """Why none of these has the memory for a request, in words."""
    reasons = [(one.name, one.memory.why_not(demand)) for one in replicas if one.memory is not None]
    # A claim that collided with another worker's was refused although there was as much a moment later.
    said = [f"{name}: {reason or 'just leased by another request'}" for name, reason in reasons[:_SHOWN]]
    if len(reasons) > _SHOWN:
        said.append(f"and {len(reasons) - _SHOWN} more")
    return f"no replica of fleet {fleet} has the memory for the request: {'; '.join(said)}"


def is_short(replica: Replica) -> bool:
    """Whether it was memory that the replica had too little of when a slot there was claimed in vain."""
    return replica.memory is not None and replica.memory.was_short


def would_be_short(replica: Replica, demand: Demand) -> bool:
    """Whether a claim there would fail for want of memory."""
    return replica.memory is not None and replica.memory.short(demand) is not None


def fits_nowhere(replicas: Iterable[Replica], work: float) -> bool:
    """Whether none of them could ever have the memory for a request."""
    return all(one.memory is not None and one.memory.fits_never(work) for one in replicas)


def count_short(passed_over: Iterable[Replica], demand: Demand) -> None:
    """A request waits or goes elsewhere: count it once at each device that was short of memory."""
    short = [one.memory.short(demand) for one in passed_over if one.memory is not None]
    for device in {device for device in short if device is not None}:
        device.waits += 1


class MemoryLeases:
    """All devices of one worker's table. Told of each change of it, before the next request."""

    def __init__(self, shared: SharedCounters | None, quota_share: QuotaShare) -> None:
        self._shared = shared
        self._host_share = quota_share
        self.devices: dict[str, Device] = {}
        self._of_fleet: dict[str, list[Device]] = {}

    def take_devices(self, specs: Iterable[AcceleratorSpec]) -> None:
        """The devices that the manifest lists now."""
        listed = {spec.name: spec for spec in specs}
        for name in listed:
            self._device(name)
        for device in self.devices.values():
            device.spec = listed.get(device.name)
            device.resize()
        self._forget_unused(list(self.devices.values()))

    def take_fleet(self, fleet: str, replicas: Iterable[Replica], freed: Callable[[], None]) -> None:
        """The replicas that a fleet has now; none: it is gone. ``freed`` is called when its requests may find
        memory that there was not."""
        before = self._of_fleet.pop(fleet, [])
        for device in before:
            del device.held[fleet]
            device.freed.pop(fleet, None)
        now: dict[str, Device] = {}
        for replica in replicas:
            spec = replica.spec
            if not spec.accelerators and replica.memory is None:
                continue  # the usual case, of thousands of replicas perhaps
            devices = [self._device(name) for name in dict.fromkeys(spec.accelerators)]
            for device in devices:
                device.held[fleet] = device.held.get(fleet, 0) + (spec.memory_bytes or 0)
                now[device.name] = device
            _renew(replica, devices)
            if replica.memory is not None:
                for device in replica.memory.devices:
                    device.freed[fleet] = freed
        if now:
            self._of_fleet[fleet] = list(now.values())
        for device in (*before, *now.values()):
            device.resize()
        self._forget_unused(before)

    def counters(self) -> list[AcceleratorCounters]:
        """For a worker's report. Also claims again what the master has cleared although this worker lives."""
        for device in self.devices.values():
            self._repair(device)
        self._forget_unused(list(self.devices.values()))
        return [device.counters() for device in self.devices.values()]

    def _device(self, name: str) -> Device:
        device = self.devices.get(name)
        if device is None:
            self.devices[name] = device = Device(name, self._host_share.share_of)
            self._claim(device)
        return device

    def _claim(self, device: Device) -> None:
        if self._shared is not None:
            # Where the block is full each worker leases for itself, up to the whole device.
            try:
                device.cells = self._shared.claim(f"accelerator/{device.name}")
            except CapacityExhausted:
                return
            device.show()

    def _repair(self, device: Device) -> None:
        if (
            self._shared is not None
            and device.cells is not None
            and not self._shared.still_held(device.cells)
        ):
            self._shared.drop(device.cells)
            device.cells = None
            self._claim(device)

    def _forget_unused(self, devices: Iterable[Device]) -> None:
        """Those of them that nobody names any more, once their last lease has ended."""
        for device in devices:
            if device.spec is None and not device.held and not device.leased:
                del self.devices[device.name]
                if self._shared is not None and device.cells is not None:
                    self._shared.release(device.cells)
                    device.cells = None


def _renew(replica: Replica, devices: Sequence[Device]) -> None:
    """Give a replica its devices, if requests take anything there."""
    spec, memory = replica.spec, replica.memory
    leases = bool(devices) and (spec.request_bytes > 0 or spec.request_bytes_per_work > 0)
    if memory is None:
        if not leases:
            return
        replica.memory = memory = ReplicaMemory()
    elif not leases and memory.is_idle:
        replica.memory = None
        return
    memory.devices = tuple(devices) if leases else ()
    memory.per_request, memory.per_work = spec.request_bytes, spec.request_bytes_per_work
