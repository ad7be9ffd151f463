"""What a command line asks the simulator for."""

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from routing.balancing import strategies
from routing.contract.policy import StrategyParameter
from routing.simulator import central_fifo
from routing.simulator.arrivals import STEADY
from routing.simulator.bursts import profile_of
from routing.simulator.catalogue import (
    CATALOGUE,
    DRAWN,
    TRACES,
    Entry,
    ProxyKnowledge,
    one_slows_down,
    replayed,
)
from routing.simulator.estimates import estimate
from routing.simulator.fleets import UNEQUAL, SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import LlmWorkload
from routing.simulator.objectives import WithDeadlines
from routing.simulator.options.errors import BadSimulationOptions
from routing.simulator.options.faults import check_replicas, faults_of
from routing.simulator.options.fleet import fleet_of, policy_of, with_servers
from routing.simulator.options.parser import simulator_parser
from routing.simulator.recorded import BadTrace
from routing.simulator.simulation import Setting
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic

Parameters = dict[str, dict[str, StrategyParameter]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationOptions:
    """What is run, and how the results are shown."""

    setting: Setting
    strategies: Sequence[str]
    parameters: Parameters
    json: bool
    plot: Path | None
    title: str
    from_s: float = 0.0
    """Figures are of what arrives from this second on."""
    shares: bool = False
    """Whether each replica's share of the requests is shown."""

    @property
    def replicas(self) -> list[str]:
        return [machine.name for machine in self.setting.fleet.machines]


def parse(arguments: Sequence[str]) -> SimulationOptions:
    """Raises :class:`BadSimulationOptions`; ``--help`` prints and exits as argparse does."""
    given = simulator_parser().parse_args(arguments)
    entry = _entry(given)
    names = given.strategies or _all_strategies(given, entry)
    parameters = _parameters(given.parameters, names)
    profile = given.profile
    if given.bursts is not None:
        if profile is not STEADY:
            raise BadSimulationOptions("--bursts and --profile exclude each other: give one of them")
        profile = profile_of(given.bursts, given.duration, stream(given.seed, "bursts"))
    traffic = Traffic(
        load=given.load,
        duration_s=given.duration,
        seed=given.seed,
        cv=given.cv,
        profile=profile,
        estimate=estimate(given.estimates, given.sigma),
    )
    fleet, policy = fleet_of(given, entry)
    fleet = with_servers(given, fleet)
    faults = faults_of(given, entry)
    check_replicas(faults, fleet)
    workload = entry.workload
    if given.deadline is not None:
        workload = WithDeadlines(workload, given.deadline)
    setting = Setting(
        fleet=fleet,
        workload=workload,
        traffic=traffic,
        faults=faults,
        policy=policy_of(given, policy),
        proxies=given.proxies,
        sites=entry.sites,
        connect_s=given.connect,
        knows_due=not given.hide_deadlines,
    )
    proxies = "one proxy" if given.proxies == 1 else f"{given.proxies} proxies"
    title = f"{given.workload}, load {given.load:.0%}, {proxies}, {given.duration:g} s, seed {given.seed}"
    if given.from_s:
        title += f", from {given.from_s:g} s on"
    return SimulationOptions(
        setting=setting,
        strategies=names,
        parameters=parameters,
        json=given.json,
        plot=given.plot,
        title=title,
        from_s=given.from_s,
        shares=given.shares,
    )


def _all_strategies(given: argparse.Namespace, entry: Entry) -> list[str]:
    """The reference knows servers with slots only, and without keys those that go by them are the default."""
    workload = entry.workload
    has_keys = isinstance(workload, LlmWorkload) and workload.block_tokens > 0
    names = [name for name in strategies.names() if has_keys or strategies.build(name, {}).affinity is None]
    return [*names, central_fifo.NAME] if given.workload in CATALOGUE else names


def _entry(given: argparse.Namespace) -> Entry:
    """What is simulated, on which fleet unless another is given."""
    name, path = given.workload, given.trace
    if path is not None and name not in TRACES:
        raise BadSimulationOptions(f"--trace goes with --workload {' or '.join(TRACES)}, not with {name}")
    if name in CATALOGUE:
        return CATALOGUE[name]
    if central_fifo.NAME in (given.strategies or ()):
        raise BadSimulationOptions(
            f"--strategies: {central_fifo.NAME} knows servers with slots only; leave it out"
        )
    if name in DRAWN:
        workload = DRAWN[name]
    else:
        if path is None:
            raise BadSimulationOptions(f"--workload {name} replays a trace: give its file with --trace FILE")
        try:
            workload = replayed(name, path)
        except BadTrace as problem:
            raise BadSimulationOptions(f"--trace {problem}") from None
    gpu = _gpu(given)
    workload = dataclasses.replace(workload, gpu=gpu)

    def fleet(known: ProxyKnowledge) -> SimulatedFleet:
        return batching(UNEQUAL, gpu, weights=known.weights, block_tokens=workload.block_tokens)

    return Entry(workload, fleet, one_slows_down)


def _gpu(given: argparse.Namespace) -> Gpu:
    """The default one, with what the command line says of it."""
    said = {"batch": given.batch, "kv_tokens": given.kv_tokens}
    return Gpu()._replace(**{name: value for name, value in said.items() if value is not None})


def nothing_arrived(setting: Setting) -> str:
    """What to say, with the cure, where there is nothing to compare."""
    traffic = setting.traffic
    more = ", or --kv-tokens larger" if isinstance(setting.workload, LlmWorkload) else ""
    return (
        f"no request arrived within {traffic.duration_s:g} s: make --duration longer, "
        f"or --load ({traffic.load:g}) higher{more}"
    )


def _parameters(given: Sequence[str], names: Sequence[str]) -> Parameters:
    found: Parameters = {}
    for text in given:
        where, equals, value = text.partition("=")
        strategy, dot, key = where.partition(".")
        if not equals or not dot or strategy not in names:
            words = f"--parameters {text!r}: give STRATEGY.KEY=VALUE, of a strategy that is compared"
            raise BadSimulationOptions(f"{words}: {', '.join(names)}")
        found.setdefault(strategy, {})[key] = _value(value)
    for name in names:
        try:
            if name == central_fifo.NAME:
                _check_no_parameters(found.get(name, {}))
            else:
                strategies.build(name, found.get(name, {}))
        except ValueError as error:
            raise BadSimulationOptions(f"--parameters: {error}") from None
    return found


def _check_no_parameters(found: dict[str, StrategyParameter]) -> None:
    if found:
        raise ValueError(f"{central_fifo.NAME} has no parameters; leave them out")


def _value(text: str) -> StrategyParameter:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text
