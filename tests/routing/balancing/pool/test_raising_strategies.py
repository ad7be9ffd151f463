"""A pick that raises, or that looks at its pool anew, leaves the pool as it was, or as it is then."""

import pytest

from routing.balancing.attempt.attempt import MONITORED, OPEN
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pinned_replica import PinnedReplica


def raises(candidates, work, now, rng):
    raise KeyboardInterrupt


@pytest.fixture
def calibrated(make_pool):
    """Every estimate counts half."""
    pool = make_pool(2)
    halve(pool, 0.5)
    return pool


def halve(pool, factor, now=1.0):
    pool.speed.calibration.factors = dict.fromkeys(range(40), factor)
    pool.refresh(now)


def monitor(pool, now):
    pool.refresh(now)
    pool._outlier_detector._monitor(now)


def begun(pool, now=1.0):
    attempt = pool.begin(8.0, now)
    attempt.settle(Outcome.CANCELLED, now)
    return attempt


def test_estimates_are_corrected_after_a_pick_that_raised(calibrated):
    pick, calibrated._pick = calibrated._pick, raises
    with pytest.raises(KeyboardInterrupt):
        calibrated.begin(8.0, 1.0)
    calibrated._pick = pick
    attempt = begun(calibrated)
    assert (attempt.work, attempt.uncalibrated_work) == (4.0, 8.0)


def test_attempts_are_monitored_after_a_pick_that_raised(make_pool):
    pool = make_pool(2)
    monitor(pool, 1.0)
    pick, pool._pick = pool._pick, raises
    with pytest.raises(KeyboardInterrupt):
        pool.begin(1.0, 1.0)
    pool._pick = pick
    assert pool.begin(1.0, 1.0).mode == MONITORED


def test_a_replica_is_probed_after_a_pick_that_raised(make_pool, fail):
    pool = make_pool(4, strategy="round_robin")
    fail(pool, "r0", 5, 1.0)
    now = pool.replicas[0].ejection.until
    monitor(pool, now)
    probe = pool.begin(1.0, now)
    assert probe.probe
    pick, pool._pick = pool._pick, raises
    with pytest.raises(KeyboardInterrupt):
        pool.begin(1.0, now)
    pool._pick = pick
    probe.settle(Outcome.CANCELLED, now)
    assert begun(pool, now).probe


def test_what_a_pool_has_learned_during_a_pick_is_not_taken_back(calibrated):
    pick = calibrated._pick

    def renews(candidates, work, now, rng):
        halve(calibrated, 0.25)
        return pick(candidates, work, now, rng)

    calibrated._pick = renews
    assert begun(calibrated).work == 4.0
    calibrated._pick = pick
    assert begun(calibrated).work == 2.0


def test_monitoring_that_ends_during_a_pick_has_ended(make_pool):
    pool = make_pool(2)
    monitor(pool, 1.0)
    pick = pool._pick

    def waits(candidates, work, now, rng):
        pool.refresh(100.0)
        return pick(candidates, work, now, rng)

    pool._pick = waits
    begun(pool)
    assert not pool._detour, "the next requests take the short way"
    pool._pick = pick
    assert pool.begin(1.0, 100.0).mode == OPEN


def test_a_pinned_request_is_corrected_as_any_other(calibrated):
    only = PinnedReplica("uid-1", "r1", "response x", only_finishes=False)
    attempt = calibrated.begin_pinned(only, 8.0, 1.0)
    assert (attempt.replica.name, attempt.work, attempt.uncalibrated_work) == ("r1", 4.0, 8.0)
    attempt.settle(Outcome.SUCCESS, 1.1)
