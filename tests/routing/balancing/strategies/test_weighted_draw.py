"""Strategies that draw: random and power of two. Seeds are stated; nothing sleeps."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.strategies.weighted_draw import WeightedDraw

SPEEDS = [1.0] * 6 + [2.0] * 6 + [4.0] * 4
CONSTANT_S = 0.05


def constant(rng):
    return CONSTANT_S, 1.0


class Weighted:
    """All that a draw looks at."""

    def __init__(self, share):
        self.share = share


# --- the draw ------------------------------------------------------------------------------------


@given(
    some.lists(some.floats(0.001, 1000), min_size=1, max_size=100),
    some.integers(1, 16),
    some.integers(0, 2**32),
)
@settings(max_examples=200, derandomize=True)
def test_what_is_drawn_together_differs(weights, count, seed):
    candidates = [Weighted(weight) for weight in weights]
    drawn = WeightedDraw().distinct(candidates, count, Random(seed))
    assert len(drawn) == len({id(one) for one in drawn}) == min(count, len(weights))


def test_the_first_and_the_second_draw_go_by_weight():
    """The second one by weight among those that the first one left."""
    weights, draws, total = [6.0, 3.0, 1.0], 30_000, 10.0
    candidates, draw, rng = [Weighted(weight) for weight in weights], WeightedDraw(), Random(4)
    pairs = Counter(
        tuple(candidates.index(one) for one in draw.distinct(candidates, 2, rng)) for _ in range(draws)
    )
    for first in range(3):
        for second in {0, 1, 2} - {first}:
            expected = weights[first] / total * weights[second] / (total - weights[first])
            assert pairs[first, second] / draws == pytest.approx(expected, abs=0.01)


def test_sums_are_renewed_with_the_list():
    draw, rng = WeightedDraw(), Random(1)
    old, new = [Weighted(1.0)], [Weighted(1.0), Weighted(9.0)]
    assert draw.one(old, rng) is old[0]
    assert sum(draw.one(new, rng) is new[1] for _ in range(1000)) > 850


# --- random and power of two in an idle pool, and under load ---------------------------------------


@pytest.mark.parametrize("strategy", ["random", "power_of_two"])
@pytest.mark.parametrize("weights", [[5.0, 3.0, 1.0, 1.0], [3.0] * 20 + [1.0] * 80], ids=["4", "100"])
def test_an_idle_pool_is_shared_by_weight(make_pool, send, strategy, weights):
    pool = make_pool([{"weight": weight} for weight in weights], strategy=strategy)
    picks = Counter(send(pool, 1.0 + i * 0.001) for i in range(20_000))
    for number, weight in enumerate(weights):
        assert picks[f"r{number}"] / 20_000 == pytest.approx(weight / sum(weights), abs=0.012)


def test_power_of_two_fills_by_weight(make_pool):
    pool = make_pool([{"weight": 3.0}, {"weight": 1.0}], strategy="power_of_two")
    held = [pool.begin(1.0, 1.0) for _ in range(40)]
    assert [replica.in_flight for replica in pool.replicas] == [30, 10]
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.0)


def test_the_second_choice_shortens_the_longest_queue(make_pool):
    """400 requests that stay, on 100 replicas: mean 4. Random leaves somebody with twice that."""
    longest = {}
    for name, settings_ in {
        "random": {"strategy": "random"},
        "two": {"strategy": "power_of_two"},
        "eight": {"strategy": "power_of_two", "parameters": {"choices": 8}},
    }.items():
        pool = make_pool(100, **settings_)
        held = [pool.begin(1.0, 1.0) for _ in range(400)]
        longest[name] = max(replica.in_flight for replica in pool.replicas)
        for attempt in held:
            attempt.settle(Outcome.CANCELLED, 1.0)
    assert longest["random"] >= 8
    assert longest["two"] <= 6
    assert longest["eight"] <= 5


def test_power_of_two_holds_the_tail_where_random_queues(make_pool, simulate):
    """Unequal replicas with true weights at 85 % of what they can do: the promise of the second choice."""
    results = {}
    for strategy in ("random", "power_of_two"):
        pool = make_pool([{"weight": speed} for speed in SPEEDS], strategy=strategy)
        simulation = simulate(pool, SPEEDS, slots=4, seed=7)
        simulation.run(0.85 * 4 * sum(SPEEDS) / CONSTANT_S, until=7.0, sizes=constant)
        results[strategy] = simulation.p99(), simulation.mean()
    assert results["power_of_two"][0] < 0.5 * results["random"][0]
    assert results["power_of_two"][1] < 0.7 * results["random"][1]


def test_power_of_two_avoids_a_replica_that_piles_up(make_pool, simulate):
    pool = make_pool(8, strategy="power_of_two")
    simulation = simulate(pool, [0.02] + [1.0] * 7, slots=4, seed=7)
    simulation.run(300.0, until=11.0, sizes=constant)
    assert simulation.picked["r0"] / simulation.picked.total() < 0.03
