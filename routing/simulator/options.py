"""Command-line options of the simulator: what is compared and on what, with messages for wrong values."""

import argparse
import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from routing.balancing import strategies
from routing.contract import fleet_file
from routing.contract.fleet_file import FleetFileError
from routing.contract.policy import Policy, Queue, StrategyParameter
from routing.simulator import central_fifo
from routing.simulator.arrivals import STEADY, Profile
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
from routing.simulator.faults import ColdStart, Crash, FastFailure, Fault, Slowdown
from routing.simulator.fleets import UNEQUAL, SimulatedFleet, fixed_slots, from_fleet_file
from routing.simulator.gpus import Gpu
from routing.simulator.llm_fleets import batching, like
from routing.simulator.llm_workloads import LlmWorkload
from routing.simulator.policy_fields import with_fields
from routing.simulator.recorded import BadTrace
from routing.simulator.simulation import Setting
from routing.simulator.warm_up import WarmUp
from routing.simulator.workloads import Traffic

Parameters = dict[str, dict[str, StrategyParameter]]


class BadSimulationOptions(Exception):
    """The command line cannot be followed; the message names the option and the cure."""


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
    given = _parser().parse_args(arguments)
    entry = _entry(given)
    names = given.strategies or _all_strategies(given, entry)
    parameters = _parameters(given.parameters, names)
    traffic = Traffic(
        load=given.load,
        duration_s=given.duration,
        seed=given.seed,
        cv=given.cv,
        profile=given.profile,
        estimate=estimate(given.estimates, given.sigma),
    )
    fleet, policy = _fleet(given, entry)
    fleet = _servers(given, fleet)
    faults = _faults(given, entry)
    _check_replicas(faults, fleet)
    setting = Setting(
        fleet=fleet,
        workload=entry.workload,
        traffic=traffic,
        faults=faults,
        policy=_policy(given, policy),
        proxies=given.proxies,
        sites=entry.sites,
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


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadSimulationOptions(f"{message}; --help lists all options")


def _parser() -> argparse.ArgumentParser:
    parser = _ArgumentParser(
        prog="python -m routing.simulator",
        description="What each strategy does to latency, in virtual time, with the proxy's own objects.",
        epilog="workloads: " + "; ".join(f"{name}: {sentence}" for name, sentence in _workloads().items()),
    )
    _add_traffic(parser.add_argument_group("what arrives"))
    _add_fleet(parser.add_argument_group("who serves it"))
    _add_faults(
        parser.add_argument_group("what goes wrong (default: the last replica at a third of its speed)")
    )
    group = parser.add_argument_group("what is compared, and how that is shown")
    add = group.add_argument
    add(
        "--strategies",
        metavar="A,B",
        type=_strategies,
        help=f"by name (default: all, and {central_fifo.NAME}, one queue that knows everything; without "
        "those that go by keys where requests have none, since they then do what least_expected_work does)",
    )
    add(
        "--parameters",
        metavar="STRATEGY.KEY=VALUE",
        action="append",
        default=[],
        help="of a strategy, for example least_expected_work.kappa=5; may be repeated",
    )
    add(
        "--from",
        dest="from_s",
        metavar="S",
        type=_above(-1, 86400),
        default=0.0,
        help="count only requests that arrive from this second on; default 0",
    )
    add("--shares", action="store_true", help="show each replica's share of the requests as well")
    add("--json", action="store_true", help="write the results as JSON, seconds, and nothing else")
    add("--plot", metavar="FILE", type=_svg, help="draw the latencies into this SVG file")
    return parser


def _workloads() -> dict[str, str]:
    """Names and what they are."""
    known = {name: one.workload.sentence for name, one in CATALOGUE.items()}
    known |= {name: one.sentence for name, one in DRAWN.items()}
    return known | {name: one.sentence for name, one in TRACES.items()}


def _add_traffic(group: Any) -> None:
    add = group.add_argument
    add("--workload", choices=list(_workloads()), default="bimodal", help="default: bimodal")
    add("--trace", metavar="FILE", type=Path, help=f"to be replayed by --workload {' or '.join(TRACES)}")
    add(
        "--load",
        metavar="SHARE",
        type=_above(0, 10),
        default=0.85,
        help="of the fleet's capacity; default 0.85",
    )
    add("--duration", metavar="S", type=_above(0, 86400), default=60.0, help="of the arrivals; default 60")
    add("--seed", metavar="N", type=int, default=1, help="the same seed is the same run; default 1")
    add(
        "--cv",
        metavar="X",
        type=_above(0, 20),
        default=1.0,
        help="variation of the gaps between requests: 1 is Poisson, more comes in bursts; default 1",
    )
    add(
        "--profile",
        metavar="T:X,T:X",
        type=_profile,
        default=STEADY,
        help="the rate times X at T seconds, in straight lines: 0:1,10:1,15:10 grows tenfold within 5 s",
    )
    add(
        "--estimates",
        choices=["exact", "noisy", "none"],
        default="noisy",
        help="the proxy's estimate of each request's work; default noisy",
    )
    add(
        "--sigma",
        metavar="X",
        type=_above(0, 5),
        default=1.0,
        help="how noisy: the estimate is times a lognormal number of this sigma; default 1",
    )


def _add_fleet(group: Any) -> None:
    add = group.add_argument
    add(
        "--proxies",
        metavar="N",
        type=_count(64),
        default=1,
        help="each on its own, requests at random; default 1",
    )
    add(
        "--fleet",
        metavar="FILE",
        type=Path,
        help="replicas of a fleet file's first fleet: weights are their speeds, max_concurrency their slots",
    )
    add(
        "--speeds",
        metavar="S,S",
        type=_speeds,
        help="replicas of these speeds; 1x6,2x6,4x4 is the default fleet",
    )
    add("--slots", metavar="N", type=_count(4096), default=4, help="of each replica of --speeds; default 4")
    add("--batch", metavar="N", type=_count(100_000), help="LLM servers: most sequences at once; default 64")
    add(
        "--kv-tokens",
        metavar="N",
        type=_count(1_000_000_000),
        help="LLM servers: tokens that KV memory has room for; default 427000",
    )
    add("--hide-weights", action="store_true", help="the proxies do not know the weights")
    add(
        "--hide-slots",
        action="store_true",
        help="the proxies do not know how many requests a replica processes at once",
    )
    add(
        "--queue",
        choices=["replica", "proxy"],
        help="where requests wait for a slot: queue.at; default replica, or as the fleet file says",
    )
    add(
        "--limit",
        metavar="N",
        type=_count(1_000_000),
        help="max_concurrency of every replica, of servers that batch too; more wait in the proxy, "
        "unless --queue says otherwise",
    )
    add(
        "--policy",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any field of the fleet's policy, for example queue.size=7; may be repeated",
    )
    add("--slow-start", metavar="S", type=_above(-1, 3600), help="the policy's slow_start_s; default 30")


def _add_faults(group: Any) -> None:
    add = group.add_argument
    common: dict[str, Any] = {"action": "append", "default": []}
    add("--steady", action="store_true", help="nothing")
    add("--slow", metavar="REPLICA:FROM-TO:X", help="times X in its speed: r16:20-40:0.33", **common)
    add("--crash", metavar="REPLICA:FROM-TO", help="it is gone, with what it works on", **common)
    add("--fail", metavar="REPLICA:FROM-TO", help="it answers with an error within 1 ms", **common)
    add("--cold", metavar="REPLICA:UNTIL", help="it loads its model until then", **common)
    add(
        "--warm-up",
        metavar="[REPLICA:]N:X",
        help="beside the others: its first N answers after a start at X of its speed, r2:3:0.05; "
        "without a name: of every replica",
        **common,
    )


# --- values ----------------------------------------------------------------------------------------------


def _above(low: float, most: float) -> Any:
    """A number above ``low``, up to ``most``."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low
        if not low < value <= most:
            raise argparse.ArgumentTypeError(f"give a number above {low:g}, at most {most:g}, not {text!r}")
        return value

    return number


def _count(most: int) -> Any:
    def count(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"give a whole number from 1 to {most}, not {text!r}")
        return int(text)

    return count


def _strategies(text: str) -> list[str]:
    known = [*strategies.names(), central_fifo.NAME]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no strategy {name!r}; choose of: {', '.join(known)}")
    return list(dict.fromkeys(names))


def _svg(text: str) -> Path:
    if not text.endswith(".svg"):
        raise argparse.ArgumentTypeError(
            f"the plot is written as SVG: give a name that ends in .svg, not {text!r}"
        )
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}: make it first, or give another")
    return path


def _profile(text: str) -> Profile:
    cure = f"give TIME:FACTOR pairs with growing times, the first at 0, as in 0:1,10:1,15:10, not {text!r}"
    try:
        points = [tuple(float(number) for number in pair.split(":")) for pair in text.split(",")]
        profile = [(time_s, factor) for time_s, factor in points]
    except ValueError:
        raise argparse.ArgumentTypeError(cure) from None
    times = [time_s for time_s, _ in profile]
    grows = all(one < other for one, other in pairwise(times))
    if times[0] != 0 or not grows or not all(0 < factor <= 1000 for _, factor in profile):
        raise argparse.ArgumentTypeError(cure)
    return profile


def _speeds(text: str) -> list[float]:
    speeds: list[float] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:x(\d+))?", part.strip())
        if found is None or not 0 < float(found[1]) <= 1000 or not 1 <= int(found[2] or 1) <= 2000:
            raise argparse.ArgumentTypeError(
                f"give speeds above 0, each with how many: 1x6,2x6,4x4, not {text!r}"
            )
        speeds += [float(found[1])] * int(found[2] or 1)
    return speeds


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


# --- fleet and faults --------------------------------------------------------------------------------------


def _fleet(given: argparse.Namespace, entry: Entry) -> tuple[SimulatedFleet, Policy]:
    known = ProxyKnowledge(weights=not given.hide_weights, limits=not given.hide_slots)
    workload = entry.workload
    llm = workload if isinstance(workload, LlmWorkload) else None
    policy = Policy(queue=Queue(at="replica"))
    if given.fleet is not None and given.speeds is not None:
        raise BadSimulationOptions("--fleet and --speeds exclude each other: give one of them")
    if given.speeds is not None and llm is not None:
        return batching(given.speeds, llm.gpu, weights=known.weights, block_tokens=llm.block_tokens), policy
    if given.speeds is not None:
        return fixed_slots(given.speeds, given.slots, **known._asdict()), policy
    if given.fleet is None:
        return entry.fleet(known), policy
    try:
        file = fleet_file.load(given.fleet)
    except OSError as error:
        raise BadSimulationOptions(
            f"--fleet {given.fleet}: {error.strerror}; give the path of a fleet file"
        ) from None
    except FleetFileError as error:
        raise BadSimulationOptions(f"--fleet: {error}") from None
    hardware = {one.name: one.weight for one in file.hardware}
    for one in file.fleets:
        fleet = from_fleet_file(one, hardware, given.slots, **known._asdict())
        if fleet.machines and llm is not None:
            return like(fleet, llm.gpu, block_tokens=llm.block_tokens), one.policy
        if fleet.machines:
            return fleet, one.policy
    raise BadSimulationOptions(
        f"--fleet {given.fleet}: no fleet in it has replicas of a weight above 0; add one"
    )


def _policy(given: argparse.Namespace, policy: Policy) -> Policy:
    """That of the fleet, with what the command line says."""
    where = given.queue or ("proxy" if given.limit is not None else None)
    if where is not None:
        policy = msgspec.structs.replace(policy, queue=msgspec.structs.replace(policy.queue, at=where))
    if given.slow_start is not None:
        policy = msgspec.structs.replace(policy, slow_start_s=given.slow_start)
    try:
        return with_fields(policy, given.policy)
    except ValueError as problem:
        raise BadSimulationOptions(f"--policy {problem}") from None


def _servers(given: argparse.Namespace, fleet: SimulatedFleet) -> SimulatedFleet:
    """The fleet's, with the limits and beginnings that the command line says."""
    warm_ups = [(_replica_or_all(text), text) for text in given.warm_up]
    machines = []
    for machine in fleet.machines:
        if given.limit is not None:
            machine = dataclasses.replace(machine, max_concurrency=given.limit)
        for (name, warm_up), _ in warm_ups:
            if name in ("", machine.name):
                machine = dataclasses.replace(machine, warm_up=warm_up)
        machines.append(machine)
    names = [machine.name for machine in machines]
    for (name, _), text in warm_ups:
        if name and name not in names:
            raise BadSimulationOptions(f"--warm-up {text}: there is no replica {name!r}; {_choose(names)}")
    return dataclasses.replace(fleet, machines=machines)


def _replica_or_all(text: str) -> tuple[str, WarmUp]:
    """The replica's name, empty for all of them."""
    found = re.fullmatch(r"(?:(.+):)?(\d{1,6}):(\d*\.?\d+)", text)
    if found is None or not int(found[2]) or not 0 < float(found[3]) <= 1000:
        raise BadSimulationOptions(
            f"--warm-up {text}: write it as r2:3:0.05 or, for all replicas, 3:0.05: how many answers, and "
            "which share of the speed, above 0"
        )
    return found[1] or "", WarmUp(int(found[2]), float(found[3]))


def _choose(names: Sequence[str]) -> str:
    return f"choose one of: {', '.join(names)}"


def _faults(given: argparse.Namespace, entry: Entry) -> Sequence[Fault]:
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
        name, ready_s = _split("--cold", text, r"(.+):(.+)", "r16:20")
        if not 0 < ready_s < inf:
            raise BadSimulationOptions(
                f"--cold {text}: give a time above 0 at which it is ready, as in r16:20"
            )
        faults.append(ColdStart(replica=name, ready_s=ready_s))
    if given.steady and faults:
        raise BadSimulationOptions("--steady says that nothing goes wrong: leave it out, or the faults")
    if faults or given.steady or given.fleet is not None or given.speeds is not None:
        return faults
    return entry.faults(given.duration)


def _check_replicas(faults: Sequence[Fault], fleet: SimulatedFleet) -> None:
    names = [machine.name for machine in fleet.machines]
    for fault in faults:
        if fault.replica not in names:
            words = f"there is no replica {fault.replica!r} for something to go wrong with"
            raise BadSimulationOptions(f"{words}; {_choose(names)}")


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
