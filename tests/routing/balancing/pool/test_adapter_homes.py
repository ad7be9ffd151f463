"""Adapters and where they are at home: few replicas each, and none with more than the bound."""

from collections import Counter, deque
from random import Random

import pytest
from msgspec.structs import replace

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.adapter_homes import LOAD_BOUND, AdapterHomes
from routing.balancing.pool.pool import Attempt

ADAPTERS = [f"adapter-{number}" for number in range(8)]
SEED, REQUESTS, AT_ONCE = 11, 4000, 40


@pytest.fixture
def make_fleet(make_pool):
    """A pool with adapters."""

    def make(replicas, strategy="least_expected_work", **fields):
        pool = make_pool(replicas, strategy=strategy)
        pool.replace(replace(pool.snapshot, adapters=ADAPTERS, **fields))
        return pool

    return make


def spread(pool, named, at_once=AT_ONCE):
    """Adapter → how many of its requests each replica got, and the most that one had in flight; while so many
    are in flight, of which the oldest ends before the next begins."""
    counts: dict[str, Counter[str]] = {adapter: Counter() for adapter in named}
    rng, open_ones, most, now = Random(SEED), deque(), 0, 1.0
    for _ in range(REQUESTS):
        now += 0.01
        adapter = rng.choice(named)
        pool.request_seen()
        found = pool.begin_for_adapters((adapter,), 1.0, now) if adapter else pool.begin(1.0, now)
        assert isinstance(found, Attempt)
        counts[adapter][found.replica.name] += 1
        open_ones.append(found)
        most = max(most, max(replica.in_flight for replica in pool.replicas))
        if len(open_ones) >= at_once:
            open_ones.popleft().settle(Outcome.SUCCESS, now)
    for attempt in open_ones:
        attempt.settle(Outcome.SUCCESS, now)
    return counts, most


@pytest.mark.parametrize("strategy", ["least_expected_work", "least_connections", "round_robin"])
def test_most_requests_of_an_adapter_meet_at_one_replica_and_none_gets_more_than_the_bound(
    make_fleet, strategy
):
    counts, most = spread(make_fleet(4, strategy), ADAPTERS)
    shares = [one.most_common(1)[0][1] / one.total() for one in counts.values()]
    assert sum(shares) / len(shares) > 0.6, "by the strategy alone it would be little more than 0.25"
    assert most <= LOAD_BOUND * (AT_ONCE + 1) / 4 + 1


def test_an_adapter_that_needs_all_replicas_gets_them(make_fleet):
    counts, most = spread(make_fleet(4), ADAPTERS[:1])
    assert all(got > 0.9 * REQUESTS / 4 for got in counts[ADAPTERS[0]].values())
    assert len(counts[ADAPTERS[0]]) == 4
    assert most <= LOAD_BOUND * (AT_ONCE + 1) / 4 + 1


def test_of_two_each_has_half_of_the_replicas(make_fleet):
    pool = make_fleet(8)
    counts, _ = spread(pool, ADAPTERS[:2])
    for adapter, got in counts.items():
        homes = {replica.name for replica in AdapterHomes(adapter, pool.replicas).order[:5]}
        assert sum(got[name] for name in homes) > 0.8 * got.total()


def test_requests_for_the_model_go_where_the_strategy_says(make_fleet):
    counts, _ = spread(make_fleet(4), ["", "", "", "", *ADAPTERS[:1]])
    (home, _), *_ = counts[ADAPTERS[0]].most_common()
    assert counts[ADAPTERS[0]][home] > 0.8 * counts[ADAPTERS[0]].total()
    assert set(counts[""]) >= {"r0", "r1", "r2", "r3"} - {home}
    totals = counts[""] + counts[ADAPTERS[0]]
    assert min(totals.values()) > 0.9 * REQUESTS / 4, "the load is even all the same"


def test_who_leaves_moves_only_what_was_at_home_there(make_fleet):
    pool = make_fleet(8)
    replicas = pool.replicas
    before = {name: AdapterHomes(name, replicas).order for name in map(str, range(400))}
    after = {name: AdapterHomes(name, replicas[1:]).order for name in before}
    assert all(after[name] == [one for one in before[name] if one is not replicas[0]] for name in before)
    firsts = Counter(order[0].name for order in before.values())
    assert all(25 < firsts[replica.name] < 80 for replica in replicas)


def test_homes_go_by_weight(make_fleet):
    pool = make_fleet(2)
    heavy = replace(pool.replicas[0].spec, weight=3.0)
    pool.replace(replace(pool.snapshot, version=9, replicas=[heavy, pool.replicas[1].spec]))
    firsts = Counter(AdapterHomes(str(number), pool.replicas).order[0].name for number in range(2000))
    assert firsts[heavy.name] == pytest.approx(1500, abs=100)


def test_a_retry_goes_to_another_home(make_fleet):
    pool = make_fleet(4)
    (adapter,) = ADAPTERS[:1]
    order = AdapterHomes(adapter, pool.replicas).order
    tried = ()
    for expected in order:
        attempt = pool.begin_for_adapters((adapter,), 1.0, 1.0, tried)
        assert attempt.replica is expected
        tried = (*tried, attempt.replica)
        attempt.settle(Outcome.CANCELLED, 1.0)
    rejection = pool.begin_for_adapters((adapter,), 1.0, 1.0, tried)
    assert rejection.code == "no_other_replica"
