"""When requests arrive, and that a simulated proxy retries as often as the real one."""

from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest

from routing.proxy.exchange import retry_policy
from routing.simulator import proxies
from routing.simulator.arrivals import times

RAMP = ((0.0, 1.0), (20.0, 1.0), (25.0, 10.0))


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gaps_have_the_mean_and_the_variation_asked_for(cv):
    gaps = [later - sooner for sooner, later in pairwise(times(Random(1), 100.0, 600.0, cv))]
    assert fmean(gaps) == pytest.approx(0.01, rel=0.05)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.05)


def test_the_rate_follows_the_profile_also_where_it_rises():
    seen = list(times(Random(1), 100.0, 40.0, profile=RAMP))
    assert seen == sorted(seen)

    def between(begin_s: float, end_s: float) -> int:
        return sum(1 for at_s in seen if begin_s <= at_s < end_s)

    assert between(0, 20) == pytest.approx(2000, rel=0.1)
    assert between(20, 25) == pytest.approx(100 * 5 * 5.5, rel=0.1)
    assert between(20, 21) == pytest.approx(100 * 1.9, rel=0.25)
    assert between(25, 40) == pytest.approx(1000 * 15, rel=0.05)


def test_a_request_is_tried_as_often_as_by_the_real_proxy():
    assert proxies.MAX_RETRIES == retry_policy.MAX_EXTRA_ATTEMPTS
