"""Faults on the simulator's command line."""

import argparse
import re
from collections.abc import Sequence
from math import inf
from typing import Any

from routing.simulator.catalogue import Entry
from routing.simulator.faults import ColdStart, Crash, FastFailure, Fault, Join, Slowdown
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.options.errors import BadSimulationOptions, choose


def faults_of(given: argparse.Namespace, entry: Entry) -> Sequence[Fault]:
    """Those that are named; else those of the workload, unless the fleet was given too."""
    faults: list[Fault] = []
    for text in given.slow:
        name, begin_s, end_s, factor = _split("--slow", text, r"(.+):(.+)-(.+):(.+)", "r16:20-40:0.33")
        if factor <= 0:
            raise BadSimulationOptions(f"--slow {text}: give a factor above 0")
        faults.append(Slowdown(replica=name, begin_s=begin_s, end_s=end_s, factor=factor))
    for text in given.crash:
        name, begin_s, end_s = _split("--crash", text, r"(.+):(.+)-(.+)", "r16:20-40")
        faults.append(Crash(replica=name, begin_s=begin_s, end_s=end_s))
    for text in given.fail:
        name, begin_s, end_s = _split("--fail", text, r"(.+):(.+)-(.+)", "r16:20-40")
        faults.append(FastFailure(replica=name, begin_s=begin_s, end_s=end_s))
    for text in given.cold:
        name, ready_s = _at("--cold", text, "at which it is ready")
        faults.append(ColdStart(replica=name, ready_s=ready_s))
    for text in given.join:
        name, at_s = _at("--join", text, "at which it joins")
        faults.append(Join(replica=name, at_s=at_s))
    if given.steady and faults:
        raise BadSimulationOptions("--steady says that nothing goes wrong: leave it out, or the faults")
    if faults or given.steady or given.fleet is not None or given.speeds is not None:
        return faults
    return entry.faults(given.duration)


def check_replicas(faults: Sequence[Fault], fleet: SimulatedFleet) -> None:
    """Raises :class:`BadSimulationOptions` where a fault is of a replica that is not there."""
    names = [machine.name for machine in fleet.machines]
    for fault in faults:
        if fault.replica not in names:
            words = f"there is no replica {fault.replica!r} for something to go wrong with"
            raise BadSimulationOptions(f"{words}; {choose(names)}")


def _split(option: str, text: str, form: str, example: str) -> Any:
    """The replica's name and the numbers behind it."""
    found = re.fullmatch(form, text)
    try:
        if found is None:
            raise ValueError
        name, *numbers = found.groups()
        values = [float(number) for number in numbers]
    except ValueError:
        raise BadSimulationOptions(f"{option} {text}: write it as {example}, times in seconds") from None
    if len(values) > 1 and not 0 <= values[0] < values[1]:
        raise BadSimulationOptions(f"{option} {text}: its end must be after its begin, as in {example}")
    return (name, *values)


def _at(option: str, text: str, what: str) -> tuple[str, float]:
    """A replica's name and the time of what happens to it."""
    name, time_s = _split(option, text, r"(.+):(.+)", "r16:20")
    if not 0 < time_s < inf:
        raise BadSimulationOptions(f"{option} {text}: give a time above 0 {what}, as in r16:20")
    return name, time_s
