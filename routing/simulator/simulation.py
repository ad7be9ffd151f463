"""Simulation run: one setting with one strategy, until the last request has ended, and its result."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from routing.contract.policy import Policy, StrategyParameter
from routing.shared.quota_share import QuotaShare
from routing.simulator import central_fifo
from routing.simulator.central_fifo import CentralFifo
from routing.simulator.connections import Connections
from routing.simulator.engine import Engine
from routing.simulator.faults import Fault
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.proxies import SimulatedProxy
from routing.simulator.requests import Request
from routing.simulator.results import Result
from routing.simulator.streams import stream
from routing.simulator.workers import pools
from routing.simulator.workloads import Traffic, Workload
from routing.simulator.world import World

ProgressCallback = Callable[[float], None]
"""Told now and then which share of the arrivals is over."""
_STEPS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What every strategy that is compared is given."""

    fleet: SimulatedFleet
    workload: Workload
    traffic: Traffic = field(default_factory=Traffic)
    faults: Sequence[Fault] = ()
    policy: Policy = field(default_factory=Policy)
    """Its strategy and parameters are replaced."""
    proxies: int = 1
    """Each with pools of its own; requests come to them at random."""
    workers: int = 1
    """Of each proxy, to which its requests come at random."""
    sites: Sequence[str] = ("",)
    """Where the proxies are, in turn."""
    share_limits: bool = True
    """Whether the proxies know how many they are, as those of one control plane do, and share limits out."""
    connect_s: float = 0.0
    """What opening a connection to a replica takes; 0: connections are not simulated."""
    knows_due: bool = True
    """Whether the proxies know deadlines, and go by the fleet's objective."""


def simulate(
    setting: Setting,
    strategy: str,
    parameters: Mapping[str, StrategyParameter] | None = None,
    progress: ProgressCallback | None = None,
) -> Result:
    """Run until the last request has ended. Raises ValueError in words where that cannot be simulated."""
    engine = Engine()
    policy = msgspec.structs.replace(setting.policy, parameters=dict(parameters or {}))
    if strategy != central_fifo.NAME:
        policy = msgspec.structs.replace(policy, strategy=strategy)
    world = World(engine, setting.fleet, policy)
    with world.resources:
        return _run(world, setting, strategy, progress)


def _run(world: World, setting: Setting, strategy: str, progress: ProgressCallback | None) -> Result:
    engine = world.engine
    arrive = _central(world) if strategy == central_fifo.NAME else _proxies(world, setting)
    for fault in setting.faults:
        fault.plan(world)
    if progress is not None:
        _tell(engine, progress, setting.traffic.duration_s)
    requests: list[Request] = []
    _feed(engine, setting.workload.requests(setting.traffic, setting.fleet), arrive, requests)
    began = time.perf_counter()
    engine.run()
    result = Result(strategy, requests, setting.policy.slo.first_token_s)
    result.events, result.wall_s = engine.events, time.perf_counter() - began
    result.counters = [proxy.pool.report(engine.now) for proxy in world.proxies]
    return result


def _central(world: World) -> Callable[[Request], None]:
    return CentralFifo(world.engine, world.nodes.values()).arrive


def _proxies(world: World, setting: Setting) -> Callable[[Request], None]:
    seed, count = setting.traffic.seed, setting.proxies
    for number in range(count):
        share = QuotaShare(number, count) if setting.share_limits else QuotaShare()
        site = setting.sites[number % len(setting.sites)]
        away_s = world.fleet.away_s(site)
        name, resources = f"proxy {number}", world.resources
        workers = [
            SimulatedProxy(
                world.engine, pool, world.nodes, site, away_s, _connections(setting), setting.knows_due
            )
            for pool in pools(world.snapshot, setting.workers, share, site, seed, name, resources)
        ]
        for worker in workers:
            worker.workers = workers
        world.proxies += workers
    if len(world.proxies) == 1:
        return world.proxies[0].arrive
    return _spread(world.proxies, setting)


def _connections(setting: Setting) -> Connections | None:
    """A worker's own: none is shared with another."""
    return Connections(setting.connect_s) if setting.connect_s else None


def _spread(proxies: Sequence[SimulatedProxy], setting: Setting) -> Callable[[Request], None]:
    """To one of those at the request's site, at random."""
    rng = stream(setting.traffic.seed, "clients")
    at_site = {site: [proxy for proxy in proxies if proxy.site == site] for site in {*setting.sites}}

    def arrive(request: Request) -> None:
        near = at_site.get(request.site) or proxies
        near[int(rng.random() * len(near))].arrive(request)

    return arrive


def _feed(
    engine: Engine, coming: Iterator[Request], arrive: Callable[[Request], None], seen: list[Request]
) -> None:
    """Have each arrive in its time; only the next one is planned, so that the heap stays small."""

    def next_one() -> None:
        request = next(coming, None)
        if request is not None:
            engine.at(request.at_s, partial(here, request))

    def here(request: Request) -> None:
        seen.append(request)
        next_one()
        arrive(request)

    next_one()


def _tell(engine: Engine, progress: ProgressCallback, duration_s: float) -> None:
    def step(number: int) -> None:
        progress(number / _STEPS)
        if number < _STEPS:
            engine.at(duration_s * (number + 1) / _STEPS, lambda: step(number + 1))

    step(0)
