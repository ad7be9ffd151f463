"""The default strategy on servers that batch, told nothing, against rules that are told how fast each is."""

import pytest

from routing.simulator.estimates import estimate
from routing.simulator.faults import Slowdown
from routing.simulator.fleets import UNEQUAL
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import Conversations
from routing.simulator.simulation import Setting, simulate
from routing.simulator.token_results import token_figures
from routing.simulator.workloads import Traffic


@pytest.mark.long
def test_a_server_that_slows_down_is_found_out_from_its_streams():
    """Short: the longer a run, the less its beginning counts; docs/simulator-llm.md has long ones."""

    def run(strategy: str, told: bool) -> tuple[float, float, float]:
        setting = Setting(
            fleet=batching(UNEQUAL, weights=told),
            workload=Conversations(),
            traffic=Traffic(duration_s=60.0, seed=2, estimate=estimate("none")),
            faults=[Slowdown(replica="r16", begin_s=20.0, end_s=40.0)],
        )
        result = simulate(setting, strategy)
        figures = token_figures(result.requests)
        return result.mean_s, figures.p99_first_token_s, figures.p99_s_per_token

    mean_s, first_s, per_token_s = run("least_expected_work", told=False)
    other_mean_s, other_first_s, other_per_token_s = run("least_connections", told=True)
    assert mean_s < 0.99 * other_mean_s
    assert first_s < 0.8 * other_first_s
    assert per_token_s < 0.85 * other_per_token_s
