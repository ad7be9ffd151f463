"""The world of a simulation: everything besides requests and proxies."""

from contextlib import ExitStack

import msgspec

from routing.contract.policy import Policy
from routing.contract.table import Health, ReplicaSpec
from routing.simulator.engine import Engine
from routing.simulator.fleets import Machine, SimulatedFleet
from routing.simulator.nodes import Node
from routing.simulator.proxies import SimulatedProxy


class World:
    """Machines, the table that says what is known of them, and the proxies that route by it."""

    def __init__(self, engine: Engine, fleet: SimulatedFleet, policy: Policy) -> None:
        self.engine = engine
        self.fleet = fleet
        self.snapshot = fleet.snapshot(policy)
        self.nodes = {
            spec.uid: Node(
                engine, machine.name, machine.make(engine, machine.speed), machine.site, machine.warm_up
            )
            for spec, machine in zip(self.snapshot.replicas, fleet.machines, strict=True)
        }
        self.proxies: list[SimulatedProxy] = []
        """One of each worker, where a proxy has several."""
        self.resources = ExitStack()
        """Closed when the simulation is over."""

    def machine(self, name: str) -> Machine:
        """Raises ValueError in words where none is called so."""
        for machine in self.fleet.machines:
            if machine.name == name:
                return machine
        names = ", ".join(machine.name for machine in self.fleet.machines)
        raise ValueError(f"there is no replica {name!r}; choose one of: {names}")

    def node(self, name: str) -> Node:
        """The same."""
        machine = self.machine(name)
        return next(node for node in self.nodes.values() if node.name == machine.name)

    def report_health(self, name: str, health: Health, has_passed: bool = True) -> None:
        """What the control plane's probes have found reaches all proxies."""
        replicas = [
            msgspec.structs.replace(spec, health=health, has_passed=has_passed, health_source="probe")
            if spec.name == name
            else spec
            for spec in self.snapshot.replicas
        ]
        self._publish(replicas)

    def register(self, name: str) -> None:
        """The table has one replica more, whose probes have not passed yet."""
        machines = [machine.name for machine in self.fleet.machines]
        number = machines.index(name)
        new = msgspec.structs.replace(
            self.fleet.machines[number].spec(number), health="checking", has_passed=False
        )
        replicas = sorted([*self.snapshot.replicas, new], key=lambda spec: machines.index(spec.name))
        self._publish(replicas)

    def unregister(self, name: str) -> None:
        """The table has it no longer."""
        self._publish([spec for spec in self.snapshot.replicas if spec.name != name])

    def _publish(self, replicas: list[ReplicaSpec]) -> None:
        version = self.snapshot.version + 1
        self.snapshot = msgspec.structs.replace(self.snapshot, version=version, replicas=replicas)
        for proxy in self.proxies:
            proxy.replace(self.snapshot)
