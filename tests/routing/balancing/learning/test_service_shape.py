"""Whether replicas have slots or batch is learned from how load slows them, and may be said."""

from math import sqrt
from random import Random

import pytest

from routing.balancing.learning.service_shape import BATCH, SLOTS, ServiceShape, prior_of
from routing.balancing.replica.state import Replica


def measured(
    shape, slows, make_spec, answers=400, loads=(0, 1, 2, 4, 8, 15), speeds=(1.0, 3.0), limit=16, sigma=0.5
):
    """After so many responses at replicas of these speeds, each slower by ``slows(depth)`` and by chance
    (``sigma`` of its logarithm); seed 1."""
    rng, now = Random(1), 0.0
    replicas = [Replica(make_spec(number)) for number in range(len(speeds))]
    for _ in range(answers):
        now += 0.02
        for replica, speed in zip(replicas, speeds, strict=True):
            replica.concurrency, replica.load = limit, rng.choice(loads)
            seconds = 0.1 * slows(replica.load + 1) * rng.lognormvariate(0.0, sigma) / speed
            shape.learn(replica, seconds, 1.0, 1.0, now)
    assert shape.is_due(now)
    shape.look(replicas, now)
    shape.compare()
    return shape


def shape_of(prior, said="auto"):
    shape = ServiceShape()
    shape.follow(said, prior)
    return shape


def test_before_anything_is_measured_the_prior_says_it() -> None:
    assert shape_of(SLOTS).batching == 0.0
    assert shape_of(BATCH).batching == 1.0
    assert prior_of("openai", "http") is prior_of("generic", "vllm") is prior_of("anthropic", "http") is BATCH
    assert prior_of("generic", "http") is prior_of("v2", "triton") is SLOTS


def test_replicas_that_slow_down_are_found_to_batch(make_spec) -> None:
    found = measured(shape_of(SLOTS), sqrt, make_spec)
    assert found.growth == pytest.approx(sqrt(2.0), rel=0.1)
    assert found.batching == 1.0
    assert found.growth_error < 1.1


def test_replicas_that_do_not_are_found_to_have_slots(make_spec) -> None:
    found = measured(shape_of(SLOTS), lambda depth: 1.0, make_spec)
    assert found.growth == pytest.approx(1.0, abs=0.03)
    assert found.batching == 0.0


def test_unequal_speeds_are_no_growth(make_spec) -> None:
    """The slow one is always full and the fast one nearly idle: within each of them load changes nothing."""
    shape, rng = shape_of(SLOTS), Random(2)
    fast, slow = Replica(make_spec(0)), Replica(make_spec(1))
    for number in range(400):
        for replica, seconds, loads in (fast, 0.1, (0, 1)), (slow, 1.0, (12, 15)):
            replica.concurrency, replica.load = 16, rng.choice(loads)
            shape.learn(replica, seconds * rng.lognormvariate(0.0, 0.5), 1.0, 1.0, 0.02 * number)
    assert shape.is_due(8.0)
    shape.look([fast, slow], 8.0)
    shape.compare()
    assert shape.batching == 0.0


def test_what_waits_at_the_limit_is_left_out(make_spec) -> None:
    """Beyond four slots each waits for its turn; that is a queue, and no batch."""
    found = measured(shape_of(SLOTS), lambda depth: max(1.0, depth / 4), make_spec, limit=4)
    assert found.batching == 0.0


def test_where_the_load_hardly_changes_the_prior_stays(make_spec) -> None:
    """A balanced fleet of LLM servers: by what it shows it might as well have slots."""
    assert measured(shape_of(BATCH), lambda depth: 1.0, make_spec, loads=(10, 11, 12)).batching == 1.0


def test_what_work_explains_well_is_soon_believed(make_spec) -> None:
    """Servers with four slots behind an LLM protocol, whose requests tell their work: little is left to
    chance, so a load that hardly changes is enough. Where more is left to chance it is not."""
    few = {"answers": 40, "loads": (0, 1, 2), "limit": 4}
    assert measured(shape_of(BATCH), lambda depth: 1.0, make_spec, sigma=0.05, **few).batching < 0.2
    assert measured(shape_of(BATCH), lambda depth: 1.0, make_spec, sigma=1.0, **few).batching == 1.0


def test_a_few_responses_that_agree_by_chance_prove_nothing(make_spec) -> None:
    few = measured(shape_of(BATCH), lambda depth: 1.0, make_spec, answers=3, loads=(0, 1, 2), sigma=0.0)
    assert few.batching == 1.0


def test_small_requests_count_for_less(make_spec) -> None:
    """What a request takes besides its work makes small ones look slow where they meet few others."""
    shape, rng = shape_of(SLOTS), Random(3)
    replica = Replica(make_spec(0))
    for number in range(800):
        small = number % 2 == 0
        replica.concurrency, replica.load = 16, rng.choice((0, 1, 2, 4)) if small else rng.choice((4, 8, 15))
        units = 0.02 if small else 1.0
        shape.learn(replica, 0.1 * units * (0.3 if small else 1.0), units, 1.0, 0.02 * number)
    assert shape.is_due(16.0)
    shape.look([replica], 16.0)
    shape.compare()
    assert shape.batching == 0.0


def test_what_is_said_counts(make_spec) -> None:
    assert measured(shape_of(SLOTS, "slots"), sqrt, make_spec).batching == 0.0
    assert measured(shape_of(BATCH, "batch"), lambda depth: 1.0, make_spec).batching == 1.0


def test_few_of_the_loads_up_to_a_large_limit_prove_no_slots(make_spec) -> None:
    """A quiet fleet of LLM servers: two or three requests there hardly slow each other, 64 do. Where the
    limit is near what was seen, such servers are found to have slots."""
    quiet = {"loads": (0, 1, 2), "answers": 2000, "sigma": 0.05}
    assert measured(shape_of(BATCH), lambda depth: 1.0, make_spec, limit=64, **quiet).batching == 1.0
    assert measured(shape_of(BATCH), lambda depth: 1.0, make_spec, limit=6, **quiet).batching == 0.0


def test_growth_at_few_of_the_loads_up_to_a_large_limit_counts(make_spec) -> None:
    quiet = {"loads": (0, 1, 2), "answers": 2000, "sigma": 0.05}
    assert measured(shape_of(SLOTS), sqrt, make_spec, limit=64, **quiet).batching == 1.0


def test_it_is_told_whether_the_shape_was_measured(make_spec) -> None:
    """Also where it is not the kind that the fleet was taken for."""
    for prior, slows in (BATCH, lambda depth: 1.0), (SLOTS, sqrt), (SLOTS, lambda depth: 1.0), (BATCH, sqrt):
        assert shape_of(prior).evidence == pytest.approx(0.0)
        assert measured(shape_of(prior), slows, make_spec, sigma=0.05).evidence > 0.9
    quiet = measured(shape_of(BATCH), lambda depth: 1.0, make_spec, loads=(0, 1), limit=256)
    assert quiet.evidence < 0.5
