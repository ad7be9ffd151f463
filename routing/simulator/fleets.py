"""Fleets of a simulation: the replicas, and what the proxies know of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from routing.contract.fleet_file import FleetEntry
from routing.contract.policy import Policy
from routing.contract.table import ApiProtocol, FleetSnapshot, ReplicaSpec
from routing.simulator.engine import Engine
from routing.simulator.fixed_slots import FixedSlots
from routing.simulator.servers import ServerModel
from routing.simulator.warm_up import WarmUp

MakeServer = Callable[[Engine, float], ServerModel]
"""Of an engine and a speed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One replica: its server, and what is said of it in the table."""

    name: str
    make: MakeServer
    speed: float = 1.0
    slots: int = 1
    """How many it serves at once at full speed."""
    weight: float = 1.0
    """Its speed as the proxies know it."""
    max_concurrency: int | None = None
    """Its slots as the proxies know them; ``None``: unknown."""
    site: str = ""
    warm_up: WarmUp | None = None
    """How it begins after each start; ``None``: at full speed."""

    @property
    def capacity(self) -> float:
        """Seconds of work at speed 1 that it does in a second."""
        return self.speed * self.slots

    def spec(self, number: int) -> ReplicaSpec:
        return ReplicaSpec(
            uid=f"uid-{number}",
            name=self.name,
            url=f"http://10.0.{number // 250}.{number % 250 + 1}:8000",
            weight=self.weight,
            max_concurrency=self.max_concurrency,
            site=self.site,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedFleet:
    """Machines in the table's order."""

    machines: Sequence[Machine]
    protocol: ApiProtocol = "generic"
    sites_away_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """From a proxy's site to a replica's, network time in one direction; none is given: 0."""

    @property
    def capacity(self) -> float:
        return sum(machine.capacity for machine in self.machines)

    def limited(self, max_concurrency: int) -> "SimulatedFleet":
        """The same servers, each with this limit in the table, whatever it can really do at once."""
        return replace(
            self, machines=[replace(machine, max_concurrency=max_concurrency) for machine in self.machines]
        )

    def snapshot(self, policy: Policy) -> FleetSnapshot:
        """The first table that the proxies have."""
        specs = [machine.spec(number) for number, machine in enumerate(self.machines)]
        return FleetSnapshot(
            epoch=1,
            version=1,
            revision=1,
            name="simulated",
            protocol=self.protocol,
            policy=policy,
            replicas=specs,
        )

    def away_s(self, site: str) -> dict[str, float]:
        """How far each site is from a proxy in this one."""
        return {there: away for (here, there), away in self.sites_away_s.items() if here == site}


def slotted(name: str, speed: float, slots: int, *, weights: bool = True, limits: bool = True) -> Machine:
    """A server with slots. ``weights``, ``limits``: whether the proxies know how fast it is, and how many
    requests it serves at once."""
    return Machine(
        name=name,
        make=partial(FixedSlots, slots=slots),
        speed=speed,
        slots=slots,
        weight=speed if weights else 1.0,
        max_concurrency=slots if limits else None,
    )


def fixed_slots(
    speeds: Sequence[float], slots: int = 4, *, weights: bool = True, limits: bool = True
) -> SimulatedFleet:
    """Servers with slots, called r1, r2 and so on."""
    numbered = enumerate(speeds, 1)
    return SimulatedFleet(
        machines=[
            slotted(f"r{number}", speed, slots, weights=weights, limits=limits) for number, speed in numbered
        ]
    )


def from_fleet_file(
    entry: FleetEntry, hardware: Mapping[str, float], slots: int, **known: bool
) -> SimulatedFleet:
    """The replicas of a fleet file's fleet: their weights are taken for their speeds, ``max_concurrency`` for
    their slots. ``hardware``: weights of hardware classes; ``slots``: of those that are not said to have any;
    ``known``: as :func:`slotted` has it."""
    machines = []
    for replica in entry.replicas:
        speed = hardware.get(replica.hardware, 1.0) if replica.weight is None else replica.weight
        limit = replica.max_concurrency or entry.policy.max_concurrency
        if speed > 0:
            machines.append(slotted(replica.name, speed, limit or slots, **known))
    return SimulatedFleet(machines=machines, protocol=entry.protocol)


UNEQUAL = (1.0,) * 6 + (2.0,) * 6 + (4.0,) * 4
"""Speeds of the fleet that is simulated unless another is given: 6 of speed 1, 6 of speed 2, 4 of speed 4."""
