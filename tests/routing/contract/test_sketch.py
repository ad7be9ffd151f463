"""The sketch's promises: 2 % at every quantile, merging loses nothing, intervals are never negative."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.sketch import (
    LARGEST_S,
    LAST_BUCKET,
    RELATIVE_ERROR,
    SMALLEST_S,
    Sketch,
    bucket_of,
    quantile,
    subtract,
    value_of,
)

durations = st.floats(SMALLEST_S, LARGEST_S)
samples = st.lists(durations, min_size=1, max_size=60)
counts = st.dictionaries(st.integers(0, LAST_BUCKET), st.integers(1, 10**6), max_size=20)
ROUNDING = 1e-9


def sketch_of(sample: list[float]) -> Sketch:
    sketch = Sketch()
    for seconds in sample:
        sketch.observe(seconds)
    return sketch


@given(durations)
def test_a_bucket_stands_for_its_durations_within_two_percent(seconds: float) -> None:
    error = abs(value_of(bucket_of(seconds)) - seconds) / seconds
    assert error <= RELATIVE_ERROR + ROUNDING


@given(samples, st.floats(0, 1))
def test_every_quantile_is_within_two_percent_of_the_exact_one(sample: list[float], q: float) -> None:
    exact = sorted(sample)[int(q * (len(sample) - 1))]
    estimate = sketch_of(sample).quantile(q)
    assert estimate is not None
    assert abs(estimate - exact) / exact <= RELATIVE_ERROR + ROUNDING


@given(samples)
def test_observe_counts_in_the_bucket_that_bucket_of_names(sample: list[float]) -> None:
    by_hand: dict[int, int] = {}
    for seconds in sample:
        by_hand[bucket_of(seconds)] = by_hand.get(bucket_of(seconds), 0) + 1
    assert sketch_of(sample).counts == by_hand


@given(samples, samples)
def test_merging_equals_observing_everything_in_one(left: list[float], right: list[float]) -> None:
    merged = sketch_of(left)
    merged.merge(sketch_of(right))
    assert merged == sketch_of(left + right)
    assert merged.count == len(left) + len(right)


@given(counts, counts, counts)
def test_merging_is_associative_and_commutative(
    a: dict[int, int], b: dict[int, int], c: dict[int, int]
) -> None:
    def merged(*parts: dict[int, int]) -> Sketch:
        total = Sketch()
        for part in parts:
            total.add_counts(part)
        return total

    left, right = merged(a, b), merged(b, c)
    left.add_counts(c)
    right.add_counts(a)
    assert left == right == merged(c, b, a)


@given(counts, counts)
def test_an_interval_is_what_was_added(before: dict[int, int], added: dict[int, int]) -> None:
    after = Sketch(before)
    after.add_counts(added)
    assert subtract(after.counts, before) == added


@given(counts, counts)
def test_an_interval_is_never_negative_and_never_more_than_the_newer_reading(
    newer: dict[int, int], older: dict[int, int]
) -> None:
    interval = subtract(newer, older)
    assert all(0 < count <= newer[bucket] for bucket, count in interval.items())


def test_after_a_restart_all_that_the_new_process_counted_is_the_interval() -> None:
    assert subtract({5: 3, 9: 1}, {5: 100}) == {5: 3, 9: 1}
    assert subtract({9: 7}, {5: 1, 9: 2}) == {9: 7}


def test_quantiles_of_known_durations() -> None:
    sketch = sketch_of([0.010] * 98 + [1.0, 10.0])
    assert sketch.quantile(0.5) == pytest.approx(0.010, rel=RELATIVE_ERROR)
    assert sketch.quantile(0.99) == pytest.approx(1.0, rel=RELATIVE_ERROR)
    assert sketch.quantile(1.0) == pytest.approx(10.0, rel=RELATIVE_ERROR)
    assert Sketch().quantile(0.5) is None
    assert quantile({}, 0.99) is None


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-12, SMALLEST_S, math.nan, -math.inf])
def test_what_is_too_small_to_tell_apart_counts_in_the_first_bucket(seconds: float) -> None:
    assert bucket_of(seconds) == 0


@pytest.mark.parametrize("seconds", [LARGEST_S, 1e9, math.inf])
def test_what_is_longer_than_a_day_counts_in_the_last_bucket(seconds: float) -> None:
    assert bucket_of(seconds) == LAST_BUCKET


@given(durations, durations)
def test_longer_never_lands_in_a_lower_bucket(a: float, b: float) -> None:
    assert bucket_of(min(a, b)) <= bucket_of(max(a, b)) <= LAST_BUCKET


def test_buckets_out_of_range_read_as_the_nearest() -> None:
    assert value_of(-5) == value_of(0)
    assert value_of(LAST_BUCKET + 99) == value_of(LAST_BUCKET)


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_outside_its_range_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile({3: 1}, q)


def test_its_repr_says_what_it_holds() -> None:
    assert repr(Sketch()) == "<Sketch empty>"
    assert repr(sketch_of([1.0])).startswith("<Sketch of 1: p50 ")
