"""What the guards hold, for every strategy, in simulation: ``python -m tests.benchmarks.guards``.

The simulator's own fleet (16 replicas of three speeds with 4 slots each) and its bimodal requests.

*Fails at once*: the fastest replica answers each request with an error after 1 ms for 20 s, at 70 % load; the
share of all requests in that time that failed, where it may be ejected and where it may not, with limits
known and not.

*Recovers*: a replica of middle speed is down for 3 s and comes back; what it got of its fair share (by
weight) in the first quarter of its slow start, at 50, 70 and 85 % load, with limits known and not.

A seed gives the same figures every time. Strategies that are blind to load are shown as well.
"""

import argparse
import sys
from dataclasses import dataclass

from routing.balancing import strategies
from routing.contract.policy import Ejection, Policy
from routing.simulator.fleets import UNEQUAL, fixed_slots
from routing.simulator.requests import FAILED
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import BIMODAL, Traffic
from routing.simulator.world import World

SLOW_START_S = 30.0


@dataclass(frozen=True)
class FailsAtOnce:
    """Every request is answered with an error."""

    replica: str
    begin_s: float
    end_s: float
    after_s: float = 0.001

    def plan(self, world: World) -> None:
        node = world.node(self.replica)
        world.engine.at(self.begin_s, lambda: setattr(node, "fails_after_s", self.after_s))
        world.engine.at(self.end_s, lambda: setattr(node, "fails_after_s", None))


@dataclass(frozen=True)
class Restarts:
    """Probes find it down, and ready again."""

    replica: str
    begin_s: float
    end_s: float

    def plan(self, world: World) -> None:
        world.engine.at(self.begin_s, lambda: world.report_health(self.replica, "down"))
        world.engine.at(self.end_s, lambda: world.report_health(self.replica, "ready"))


def fails_at_once(
    strategy: str, seed: int = 1, *, ejects: bool = True, limits: bool = True, for_s: float = 20.0
) -> float:
    """Share of the requests that failed while a replica failed at once."""
    begin_s = 2.0
    setting = Setting(
        fleet=fixed_slots(UNEQUAL, limits=limits),
        workload=BIMODAL,
        traffic=Traffic(load=0.7, duration_s=begin_s + for_s, seed=seed),
        faults=[FailsAtOnce("r16", begin_s, begin_s + for_s)],
        policy=Policy(ejection=Ejection(max_ejected_percent=50.0 if ejects else 0.0)),
    )
    then = [request for request in simulate(setting, strategy).requests if request.at_s >= begin_s]
    return sum(request.end == FAILED for request in then) / len(then)


def recovers(
    strategy: str,
    seed: int = 1,
    *,
    load: float = 0.7,
    limits: bool = True,
    slow_start_s: float = SLOW_START_S,
) -> float:
    """What a replica that has come back had of its fair share in the first quarter of slow start."""
    down_s, up_s = 2.0, 5.0
    setting = Setting(
        fleet=fixed_slots(UNEQUAL, limits=limits),
        workload=BIMODAL,
        traffic=Traffic(load=load, duration_s=up_s + slow_start_s / 4, seed=seed),
        faults=[Restarts("r7", down_s, up_s)],
        policy=Policy(slow_start_s=slow_start_s),
    )
    then = [request for request in simulate(setting, strategy).requests if request.at_s >= up_s]
    got = sum(request.replica == "r7" for request in then) / len(then)
    return got / (UNEQUAL[6] / sum(UNEQUAL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategies", nargs="*", default=strategies.names())
    given = parser.parse_args()
    print("fails at once: failed requests; recovers: part of its fair share (limit known, not known)")
    print(f"{'strategy':22} {'ejected':>15} {'not ejected':>15} {'50 %':>11} {'70 %':>11} {'85 %':>11}")
    for name in given.strategies:
        print(f"{name} …", end="\r", file=sys.stderr, flush=True)
        row = [
            f"{fails_at_once(name, given.seed, ejects=ejects, limits=limits):7.3%}"
            for ejects in (True, False)
            for limits in (True, False)
        ]
        row += [
            f"{recovers(name, given.seed, load=load, limits=limits):5.0%}"
            for load in (0.5, 0.7, 0.85)
            for limits in (True, False)
        ]
        print(f"{name:22} {' '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
