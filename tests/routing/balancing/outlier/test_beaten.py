"""A replica that another one has beaten: one that is silent is ejected, one that is slow is asked less."""

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier import ejection
from routing.balancing.pool.pool import Pool

USUAL_S, LATE_S = 0.2, 1.0
STRATEGIES = ["round_robin", "least_expected_work", "least_connections", "power_of_two"]


class Traffic:
    """Requests one after the other; each at ``r0`` is beaten, the others answer."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.now = 1.0
        self.beaten = 0
        self.replica = pool.replicas[0]

    def begin(self) -> Attempt:
        self.now += 0.02
        attempt = self.pool.begin(1.0, self.now)
        assert isinstance(attempt, Attempt)
        return attempt

    def request(self, tells: bool = False) -> None:
        attempt = self.begin()
        if attempt.replica is not self.replica:
            attempt.settle(Outcome.SUCCESS, self.now + USUAL_S)
            return
        if tells:
            self.replica.told_at = self.now + LATE_S / 2
        attempt.settle(Outcome.BEATEN, self.now + LATE_S)
        self.beaten += 1


@pytest.fixture
def traffic(make_pool):
    def make(strategy: str) -> Traffic:
        traffic = Traffic(make_pool(4, strategy=strategy, slow_start_s=0))
        for _ in range(60):
            attempt = traffic.begin()
            attempt.settle(Outcome.SUCCESS, traffic.now + USUAL_S)
        traffic.now += 10.0
        return traffic

    return make


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_that_is_silent_is_ejected(traffic, strategy):
    one = traffic(strategy)
    for _ in range(2000):
        one.request()
        if one.replica.ejection.until:
            break
    assert one.beaten == one.replica.outcomes.beaten == 5
    assert one.replica.ejection.cause == ejection.SILENCE
    assert "the last one sent nothing until another replica had answered" in one.replica.ejection.reason
    assert one.replica.failed == 0, "no failure that the metrics have"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_that_is_slow_is_not(traffic, strategy):
    one = traffic(strategy)
    for _ in range(5000):
        one.request(tells=True)
    assert one.beaten > 5
    assert not one.replica.ejection.until
    assert not one.replica.ejection.failures


def test_one_that_is_slow_is_asked_less(traffic):
    one = traffic("least_expected_work")
    for _ in range(500):
        one.request(tells=True)
    assert one.beaten < 500 / 4 / 2


def test_a_beaten_probe_request_ejects_again(traffic):
    one = traffic("round_robin")
    while not one.replica.ejection.until:
        one.request()
    one.now = one.replica.ejection.until
    before = one.beaten
    while one.beaten == before:
        one.request()
    assert one.replica.ejection.count == 2
    assert not one.replica.ejection.probing
    assert one.replica.ejection.cause == ejection.SILENCE


def test_the_return_of_one_that_answers(traffic):
    one = traffic("round_robin")
    while not one.replica.ejection.until:
        one.request()
    one.now = one.replica.ejection.until
    for _ in range(10):
        one.begin().settle(Outcome.SUCCESS, one.now + USUAL_S)
    assert not one.replica.ejection.until


def test_nothing_is_learned_of_how_long_requests_take(make_pool):
    """What it had taken is not known; it is not as if its client had left."""
    pool = make_pool(1)
    known = pool.speed.predictions._completion[True]
    for number in range(60):
        pool.begin(1.0, float(number)).settle(Outcome.SUCCESS, number + USUAL_S)
    before = (known.low, known.median, known.high)
    for number in range(60, 90):
        pool.begin(1.0, float(number)).settle(Outcome.BEATEN, number + 0.1)
    assert (known.low, known.median, known.high) == before
