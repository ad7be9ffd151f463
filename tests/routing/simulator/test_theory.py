"""Against what queueing theory says exactly."""

from math import factorial

import pytest

from routing.simulator.fleets import fixed_slots
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import EXPONENTIAL, MEAN_S, Traffic


def erlang_c(servers: int, load: float) -> float:
    """Probability that a request waits in the M/M/c queue (Erlang 1917). ``load``: share of capacity."""
    offered = servers * load
    waits = offered**servers / factorial(servers) / (1 - load)
    return waits / (sum(offered**k / factorial(k) for k in range(servers)) + waits)


@pytest.mark.parametrize("limits", [True, False], ids=["line in the proxy", "queue in the server"])
@pytest.mark.parametrize("load", [pytest.param(0.5, marks=pytest.mark.long), 0.8])
def test_mean_of_one_server_with_slots_is_that_of_erlang_c(load, limits):
    slots = 4
    traffic = Traffic(load=load, duration_s=400.0, seed=3)
    setting = Setting(fleet=fixed_slots([1.0], slots, limits=limits), workload=EXPONENTIAL, traffic=traffic)
    expected = MEAN_S * (1 + erlang_c(slots, load) / (slots * (1 - load)))
    for strategy in ("least_expected_work", "central_fifo"):
        assert simulate(setting, strategy).mean_s == pytest.approx(expected, rel=0.04)
