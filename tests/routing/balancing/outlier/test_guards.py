"""What the guards hold with every strategy, in the simulator: the benchmark's figures, shorter."""

import pytest

from routing.balancing import strategies
from tests.benchmarks.guards import fails_at_once, recovers

WITH_AND_WITHOUT_LIMITS = pytest.mark.parametrize(
    "limits", [True, pytest.param(False, marks=pytest.mark.long)], ids=["limits known", "not known"]
)


@WITH_AND_WITHOUT_LIMITS
@pytest.mark.parametrize("strategy", strategies.names())
def test_a_replica_that_fails_at_once_fails_almost_nothing_where_it_may_not_be_ejected(strategy, limits):
    """A fair share would be a tenth; without the guards it is up to six tenths."""
    assert fails_at_once(strategy, ejects=False, limits=limits, for_s=3.0) <= 0.005


@pytest.mark.parametrize("strategy", strategies.names())
def test_ejected_it_fails_almost_nothing(strategy):
    assert fails_at_once(strategy, limits=True, for_s=3.0) <= 0.005


@WITH_AND_WITHOUT_LIMITS
@pytest.mark.parametrize("strategy", strategies.names())
def test_a_replica_that_is_back_gets_a_quarter_of_its_share_at_most(strategy, limits):
    """In the first quarter of slow start."""
    assert recovers(strategy, limits=limits, slow_start_s=12.0) <= 0.25


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["least_connections", "power_of_two", "peak_ewma", "latency_aware"])
def test_nor_more_where_the_fleet_is_nearly_full(strategy):
    """One place of its four is a quarter already."""
    assert recovers(strategy, load=0.85, slow_start_s=12.0) <= 0.2
