"""Fleets of servers with continuous batching."""

from collections.abc import Sequence
from dataclasses import replace

from routing.simulator.batching import BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.fleets import Machine, MakeServer, SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.prefix_cache import PrefixCache
from routing.simulator.servers import ServerModel


def batching(
    speeds: Sequence[float], gpu: Gpu | None = None, *, weights: bool = True, block_tokens: int = 0
) -> SimulatedFleet:
    """``weights``: whether the proxies know how fast each is. That it batches they see from its having no
    limit. ``block_tokens``: of the blocks that keys name, whose KV servers keep; 0: they keep none.

    The fleet's capacity is in GPUs of speed 1.
    """
    make = _maker(gpu or Gpu(), block_tokens)
    machines = [
        Machine(name=f"r{number}", make=make, speed=speed, weight=speed if weights else 1.0)
        for number, speed in enumerate(speeds, 1)
    ]
    return SimulatedFleet(machines=machines, protocol="openai")


def like(fleet: SimulatedFleet, gpu: Gpu, *, block_tokens: int = 0) -> SimulatedFleet:
    """That fleet, of servers that batch. They have no fixed number of requests that they serve at once."""
    make = _maker(gpu, block_tokens)
    machines = [replace(machine, make=make, slots=1, max_concurrency=None) for machine in fleet.machines]
    return replace(fleet, machines=machines)


def _maker(gpu: Gpu, block_tokens: int) -> MakeServer:
    def make(engine: Engine, speed: float) -> ServerModel:
        return BatchingServer(
            engine, speed, gpu, PrefixCache(gpu.kv_tokens, block_tokens) if block_tokens else None
        )

    return make
