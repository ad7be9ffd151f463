"""A limit is a wall in the proxy, for servers that batch as for those with slots."""

import pytest

from routing.contract.policy import Policy
from routing.simulator.fleets import fixed_slots
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_workloads import Conversations


@pytest.mark.parametrize("strategy", ["least_expected_work", "least_connections"])
def test_no_batching_server_gets_more_than_its_limit(run, strategy):
    given = {"workload": Conversations(), "load": 0.6, "duration_s": 20.0, "policy": Policy()}
    assert run(strategy, fleet=batching([1.0, 1.0]), **given).peak_in_flight > 8
    result = run(strategy, fleet=batching([1.0, 1.0]).limited(8), **given)
    assert result.peak_in_flight == 8
    assert max(request.sent_s - request.at_s for request in result.requests if request.replica) > 0


def test_a_limit_may_be_less_than_the_slots_of_a_server(run):
    result = run(fleet=fixed_slots([1.0], 4).limited(2), load=0.45, policy=Policy())
    assert result.peak_in_flight == 2
