"""Load reports: servers report their load, and probes bring it to the proxies with a delay."""

from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from routing.balancing.learning import reported_load
from routing.contract.load_report import ReportedLoad
from routing.simulator.batching import BatchingServer
from routing.simulator.fixed_slots import FixedSlots
from routing.simulator.proxies import SimulatedProxy
from routing.simulator.servers import ServerModel
from routing.simulator.streams import stream
from routing.simulator.world import World

PERIOD_S = 2.0
JITTER = 0.2
LATEST_S = 1.1
"""From a page's being read until the last worker has it: each asks once a second."""


@dataclass(frozen=True, slots=True)
class Reports:
    """Plan it as a fault: every server is asked for its load as probes do, until the time is over."""

    until_s: float
    seed: int = 1

    def plan(self, world: World) -> None:
        rng = stream(self.seed, "reports")
        engine = world.engine

        def ask(uid: str) -> None:
            said, asked_at = load_of(world.nodes[uid].server), engine.now
            for proxy in world.proxies:
                engine.at(asked_at + rng.uniform(0.1, LATEST_S), partial(receive, proxy, uid, said, asked_at))
            if asked_at < self.until_s:
                engine.at(asked_at + PERIOD_S * rng.uniform(1 - JITTER, 1 + JITTER), partial(ask, uid))

        def receive(proxy: SimulatedProxy, uid: str, said: ReportedLoad, asked_at: float) -> None:
            report = replace(said, age_s=engine.now - asked_at)
            for replica in proxy.pool.replicas:
                if replica.uid == uid:
                    reported_load.record(replica, report, engine.now)

        for uid in world.nodes:
            engine.at(rng.random() * PERIOD_S, partial(ask, uid))


def load_of(server: ServerModel) -> ReportedLoad:
    """What its metrics page would report. Raises ValueError if such a server has none."""
    if isinstance(server, BatchingServer):
        kv_share = min(1.0, server.kv_tokens / server.gpu.kv_tokens)
        return ReportedLoad(running=server.in_batch, waiting=server.waiting, kv_share=kv_share)
    if isinstance(server, FixedSlots):
        return ReportedLoad(running=len(server.running), waiting=len(server.queue))
    raise ValueError(f"a {type(server).__name__} does not tell its load")
