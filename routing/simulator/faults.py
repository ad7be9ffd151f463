"""What goes wrong in a simulation, and when."""

from dataclasses import dataclass
from typing import Protocol

from routing.simulator.world import World


class Fault(Protocol):
    """Something that happens to one replica."""

    def plan(self, world: World) -> None:
        """Have it happen in its time. Raises ValueError where there is no such replica."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slowdown:
    """It is slower for a while: a clock throttled by heat, a neighbour on the same device."""

    replica: str
    begin_s: float
    end_s: float
    factor: float = 1 / 3
    """Of its speed."""

    def plan(self, world: World) -> None:
        node, speed = world.node(self.replica), world.machine(self.replica).speed
        world.engine.at(self.begin_s, lambda: node.server.set_speed(speed * self.factor))
        world.engine.at(self.end_s, lambda: node.server.set_speed(speed))
