"""Fault injection: what fails in a simulation, and when. Probes notice faults with a realistic delay."""

from dataclasses import dataclass
from typing import Protocol

from routing.contract.probe import Probe
from routing.simulator.world import World

_PROBE = Probe()
SEEN_DOWN_AFTER_S = (_PROBE.fall - 0.5) * _PROBE.period_s
"""From a crash to the table that says so, on average: the first probe that fails comes in half a period."""
SEEN_UP_AFTER_S = (_PROBE.rise - 0.5) * _PROBE.period_s
FIRST_PASS_AFTER_S = 0.5 * _PROBE.period_s
"""A replica's very first pass counts at once."""
FAILS_AFTER_S = 0.001


class Fault(Protocol):
    """One fault of one replica."""

    @property
    def replica(self) -> str: ...

    def plan(self, world: World) -> None:
        """Schedule it. Raises ValueError if there is no such replica."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slowdown:
    """Slower for a while: thermal throttling, or a noisy neighbour on the same device."""

    replica: str
    begin_s: float
    end_s: float
    factor: float = 1 / 3
    """Of its speed."""

    def plan(self, world: World) -> None:
        node, speed = world.node(self.replica), world.machine(self.replica).speed
        world.engine.at(self.begin_s, lambda: node.server.set_speed(speed * self.factor))
        world.engine.at(self.end_s, lambda: node.server.set_speed(speed))


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """Crash: its requests are lost and connections refused until it is back; probes see both."""

    replica: str
    begin_s: float
    end_s: float

    def plan(self, world: World) -> None:
        node, engine = world.node(self.replica), world.engine
        engine.at(self.begin_s, node.crash)
        seen_down_s = self.begin_s + SEEN_DOWN_AFTER_S
        if seen_down_s < self.end_s:
            engine.at(seen_down_s, lambda: world.report_health(self.replica, "down"))
            up_s = self.end_s + SEEN_UP_AFTER_S
            engine.at(up_s, lambda: world.report_health(self.replica, "ready"))
        engine.at(self.end_s, node.restart)


@dataclass(frozen=True, kw_only=True, slots=True)
class FastFailure:
    """Errors at once for every request, while its probes pass: only live traffic shows it."""

    replica: str
    begin_s: float
    end_s: float

    def plan(self, world: World) -> None:
        node = world.node(self.replica)
        world.engine.at(self.begin_s, lambda: node.fail_after(FAILS_AFTER_S))
        world.engine.at(self.end_s, lambda: node.fail_after(None))


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdStart:
    """Cold start: refuses connections while it loads its model; its first pass begins its slow start."""

    replica: str
    ready_s: float

    def plan(self, world: World) -> None:
        node, engine = world.node(self.replica), world.engine
        node.crash()
        world.report_health(self.replica, "checking", has_passed=False)
        engine.at(self.ready_s, node.restart)
        seen_s = self.ready_s + FIRST_PASS_AFTER_S
        engine.at(seen_s, lambda: world.report_health(self.replica, "ready"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """Unequal starts: it is registered and started later than the others; its first pass begins its slow
    start."""

    replica: str
    at_s: float

    def plan(self, world: World) -> None:
        node, engine = world.node(self.replica), world.engine
        node.crash()
        world.unregister(self.replica)
        engine.at(self.at_s, node.restart)
        engine.at(self.at_s, lambda: world.register(self.replica))
        engine.at(self.at_s + FIRST_PASS_AFTER_S, lambda: world.report_health(self.replica, "ready"))
