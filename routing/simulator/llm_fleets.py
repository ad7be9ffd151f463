"""Fleets of servers with continuous batching."""

from collections.abc import Sequence

from routing.simulator.batching import BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.fleets import Fleet, Machine
from routing.simulator.gpus import Gpu
from routing.simulator.prefix_cache import PrefixCache
from routing.simulator.servers import Server


def batching(
    speeds: Sequence[float], gpu: Gpu | None = None, *, weights: bool = True, caches: bool = False
) -> Fleet:
    """``weights``: whether the proxies are told how fast each is; that it batches they see from its having no
    limit. ``caches``: whether servers keep prompts' KV, where keys name the blocks of prompts.

    The fleet's capacity is in GPUs of speed 1.
    """
    kind = gpu or Gpu()

    def make(engine: Engine, speed: float) -> Server:
        return BatchingServer(engine, speed, kind, PrefixCache(kind.kv_tokens) if caches else None)

    machines = [
        Machine(name=f"r{number}", make=make, speed=speed, weight=speed if weights else 1.0)
        for number, speed in enumerate(speeds, 1)
    ]
    return Fleet(machines=machines, protocol="openai")
