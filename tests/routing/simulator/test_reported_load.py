"""Proxies that hear the same reports do not run together, and see the load that others put on servers."""

from collections.abc import Sequence
from functools import partial

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.faults import Fault
from routing.simulator.fleets import UNEQUAL
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import Conversations
from routing.simulator.reports import Reports
from routing.simulator.requests import Request
from routing.simulator.results import Result
from routing.simulator.simulation import Setting, simulate
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic
from routing.simulator.world import World

SECONDS = 20.0
LLM = Conversations()


class Unheard:
    """Hears the answer of a request that no proxy has sent."""

    def first_byte(self, now: float) -> None:
        pass

    def tokens(self, now: float, count: int) -> None:
        pass

    def ended(self, now: float, outcome: Outcome) -> None:
        pass


class DirectClients:
    """Send so many requests a second to each of these servers, past all proxies."""

    def __init__(self, names: Sequence[str], rate: float) -> None:
        self.names, self.rate = names, rate

    def plan(self, world: World) -> None:
        rng = stream(1, "direct clients")

        def send(name: str) -> None:
            now = world.engine.now
            prompt, output = LLM.lengths.draw(rng)
            request = Request(now, estimate=1.0, prompt_tokens=prompt, output_tokens=output)
            world.node(name).begin(request, Unheard(), 0.0)
            plan_next(name)

        def plan_next(name: str) -> None:
            at = world.engine.now + rng.expovariate(self.rate)
            if at < SECONDS:
                world.engine.at(at, partial(send, name))

        for name in self.names:
            plan_next(name)


def run(load: float, proxies: int, *faults: Fault, know: bool = True) -> Result:
    """``know``: whether the proxies know how many they are."""
    setting = Setting(
        fleet=batching(UNEQUAL, weights=False),
        workload=LLM,
        traffic=Traffic(load=load, duration_s=SECONDS, seed=1),
        faults=faults,
        proxies=proxies,
        share_limits=know,
    )
    return simulate(setting, "least_expected_work")


@pytest.mark.parametrize(("know", "most"), [(True, 1.03), pytest.param(False, 1.10, marks=pytest.mark.long)])
def test_four_proxies_that_hear_the_same_reports_do_not_run_together(know: bool, most: float) -> None:
    """Where they do not know each other, going by the last report makes the mean answer a third longer."""
    alone = run(0.85, 4, know=know)
    told = run(0.85, 4, Reports(SECONDS), know=know)
    assert told.mean_s <= most * alone.mean_s
    assert told.quantile(0.99) <= 1.1 * alone.quantile(0.99)


def test_servers_that_others_load_too_get_less() -> None:
    direct = DirectClients(["r1", "r2", "r3"], 4.0)
    shares = []
    for faults in ((direct,), (direct, Reports(SECONDS))):
        sent = [request.replica for request in run(0.6, 1, *faults).requests]
        shares.append(sum(name in direct.names for name in sent) / len(sent))
    assert shares[1] <= 0.8 * shares[0]
