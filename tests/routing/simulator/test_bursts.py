"""Bursts that last for seconds: how much arrives in them, and that the load stays the same."""

from random import Random
from statistics import fmean, pvariance

import pytest

from routing.simulator.arrivals import times
from routing.simulator.bursts import Bursts, profile_of

BURSTS = Bursts(factor=5.0, length_s=4.0, every_s=20.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_mean_rate_is_that_without_bursts(seed):
    profile = profile_of(BURSTS, 120.0, Random(seed))
    assert len(list(times(Random(seed), 200.0, 120.0, profile=profile))) == pytest.approx(24_000, rel=0.03)


def test_bursts_are_as_strong_as_long_and_as_frequent_as_asked():
    profile = profile_of(BURSTS, 20_000.0, Random(1))
    starts, ends = profile[1::2], profile[2::2]
    low, high = min(factor for _, factor in profile), max(factor for _, factor in profile)
    assert high / low == pytest.approx(5.0)
    assert low == pytest.approx(1 / (1 + 4 * 4 / 20), rel=0.05)
    lengths = {low: [], high: []}
    for (begin_s, _), (end_s, factor) in zip(ends, starts[1:], strict=False):
        lengths[factor].append(end_s - begin_s)
    assert fmean(lengths[high]) == pytest.approx(4.0, rel=0.1)
    assert fmean(lengths[low]) == pytest.approx(16.0, rel=0.1)


def test_windows_of_seconds_vary_far_more_than_poisson_s():
    profile = profile_of(BURSTS, 2_000.0, Random(1))
    counts = [0] * 200
    for at_s in times(Random(1), 10.0, 2_000.0, profile=profile):
        counts[int(at_s / 10)] += 1
    assert pvariance(counts) / fmean(counts) > 20
