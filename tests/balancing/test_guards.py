"""What the guards hold with every strategy, in the simulator: the benchmark's figures, shorter."""

import pytest

from routing import strategies
from tests.benchmarks.guards import fails_at_once, recovers

BLIND = ("round_robin", "random")
BY_LOAD = [name for name in strategies.names() if name not in BLIND]


@pytest.mark.parametrize("strategy", BY_LOAD)
def test_a_replica_that_fails_at_once_is_left_by_what_failures_cost_alone(strategy):
    """It may not be ejected. A fair share would be a tenth; without the guard it is up to six tenths."""
    # Its own rule leaves each replica a quarter of its weight.
    most = 0.07 if strategy == "latency_aware" else 0.02
    assert fails_at_once(strategy, ejects=False, limits=False, for_s=3.0) < most


@pytest.mark.parametrize("strategy", BY_LOAD)
def test_ejected_it_fails_almost_nothing(strategy):
    assert fails_at_once(strategy, limits=True, for_s=3.0) <= 0.005


@pytest.mark.parametrize("limits", [True, False], ids=["limits known", "not known"])
@pytest.mark.parametrize("strategy", strategies.names())
def test_a_replica_that_is_back_gets_a_quarter_of_its_share_at_most(strategy, limits):
    """In the first quarter of slow start."""
    assert recovers(strategy, limits=limits, slow_start_s=12.0) <= 0.25
