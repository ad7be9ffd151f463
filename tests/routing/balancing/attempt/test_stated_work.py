"""What a client states of its request's work: it counts while that runs, and nothing is learned from it."""

from random import Random

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool


def learned(pool: Pool) -> dict[str, object]:
    speed = pool.speed
    replicas = [(replica.seconds_per_work, replica.load_work, replica.in_flight) for replica in pool.replicas]
    means = (speed.mean_work, speed.mean_seconds, speed.tokens_per_work, speed.answer_tokens, speed.base)
    return {"replicas": replicas, "means": means, "factors": speed.calibration.factors}


@pytest.mark.parametrize("tokens", [0, 40])
def test_nothing_is_learned_from_what_a_client_states(make_pool, tokens: int) -> None:
    """The same requests, once with absurd statements."""
    pools = []
    for lies in (False, True):
        pool, rng, now = make_pool(1, strategy="least_expected_work"), Random(7), 1.0
        for _ in range(400):
            own, took = rng.choice([(10.0, 0.1), (100.0, 1.0), (-30.0, 0.5)])
            now += 2.0
            stated = rng.choice([1e-6, 1e9])
            attempt = pool.begin(stated if lies else own, now, stated=lies)
            assert isinstance(attempt, Attempt)
            if lies:
                assert pool.replicas[0].work == stated
                attempt = pool.by_stated_work(attempt, own)
            attempt.heard(now + took / 2, tokens // 2)
            attempt.settle(Outcome.SUCCESS, now + took, tokens)
        pool.refresh(now)
        pools.append(pool)
    assert learned(pools[0]) == learned(pools[1])


def test_an_attempt_that_was_replaced_is_settled_once(make_pool) -> None:
    pool = make_pool(1)
    before = pool.begin(50.0, 1.0, stated=True)
    attempt = pool.by_stated_work(before, 5.0)
    (replica,) = pool.replicas
    assert (replica.in_flight, replica.load_work, attempt.own_work) == (1, 50.0, 5.0)
    with pytest.raises(RuntimeError, match="settled twice"):
        before.settle(Outcome.SUCCESS, 2.0)
    attempt.settle(Outcome.CANCELLED, 2.0)
    assert (replica.in_flight, replica.load_work, replica.outcomes.cancelled) == (0, 0.0, 1)


def test_stated_work_is_not_corrected(make_pool) -> None:
    """The clients' library always sends the same ``max_tokens``; one client knows better."""
    pool, now = make_pool(1), 1.0
    for number in range(300):
        now += 1.0
        own, tokens = (4096.0, 64) if number % 2 else (70.0, 64)
        pool.begin(own, now).settle(Outcome.SUCCESS, now + 0.5, tokens)
    now += 1.0
    usual = pool.begin(4096.0, now)
    assert usual.work < 3000.0
    attempt = pool.begin(4000.0, now, stated=True)
    assert attempt.work == 4000.0
    attempt = pool.by_stated_work(attempt, 4096.0)
    assert (attempt.own_work, attempt.uncalibrated_work) == (usual.work, 4096.0)
