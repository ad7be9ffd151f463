"""Where the replica that was picked has no place: who gets the request in its stead."""

from collections import Counter
from random import Random

import pytest

from routing.balancing import strategies
from routing.balancing.admission import free_slots
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import ANY_SLOT, Attempt, Pool
from routing.balancing.replica.sibling_load import COUNTS_EVERY_S, with_slot
from routing.balancing.strategies.sampling import LARGE_POOL
from routing.shared.shm_counters import SharedCounters

SIZE = 200
KEYS = [(Random(7).getrandbits(64) * odd % (1 << 64),) for odd in range(1, 4001, 2)]
KEYED = ["consistent_hash", "prefix_affinity"]


@pytest.fixture
def full_pool(make_snapshot):
    """``full_pool(strategy, free=range(10))``: each replica has one place, taken but at those."""

    def make(strategy, free, replicas=SIZE, site="", **policy):
        given = [{}] * replicas if isinstance(replicas, int) else replicas
        policy = {"max_concurrency": 1, "slow_start_s": 0.0} | policy
        pool = Pool(make_snapshot(given, strategy=strategy, **policy), None, Random(3), site=site)
        taken = {}
        while isinstance(found := pool.begin(1.0, 1.0, turn=ANY_SLOT), Attempt):
            taken[found.replica] = found
        assert len(taken) == len(given)
        for number in free:
            taken[pool.replicas[number]].settle(Outcome.CANCELLED, 1.0)
        return pool

    return make


def with_one(pool):
    return {replica.name for replica in pool.replicas if replica.in_flight < replica.limit}


def passing(pool, count, now=1.0, keys=KEYS):
    """So many requests one after the other; how many each replica got."""
    shares = Counter()
    for key in keys[:count]:
        found = pool.begin(1.0, now, key=key)
        found.settle(Outcome.CANCELLED, now)
        shares[found.replica.name] += 1
    return shares


# --- somebody who has a place ----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", strategies.names())
@pytest.mark.parametrize("free", [range(0, SIZE, 2), range(0, SIZE, 20), [17]])
def test_whoever_has_a_place_is_found_at_once_among_many(full_pool, strategy, free):
    pool = full_pool(strategy, free)
    assert passing(pool, 300).keys() <= {f"r{number}" for number in free}


@pytest.mark.parametrize("strategy", strategies.names())
@pytest.mark.parametrize("size", [5, SIZE])
def test_each_place_is_given_once_and_nobody_is_refused_while_there_is_one(full_pool, strategy, size):
    pool, rng, held, now = full_pool(strategy, [], replicas=size), Random(5), [], 1.0
    others = [one for one in pool.replicas if rng.random() < 0.9]
    for replica in others:
        # As if requests of which nothing else is known ended there.
        replica.in_flight = replica.load = 0
    pool.refresh(now)
    for step in range(1500):
        now += rng.choice((0.0, 0.0, 0.0001, 0.002))
        if rng.random() < (0.45 if step % 500 < 250 else 0.55) and held:
            held.pop(rng.randrange(len(held))).settle(Outcome.CANCELLED, now)
            continue
        places = with_one(pool)
        found = pool.begin(1.0, now, turn=ANY_SLOT, key=rng.choice(KEYS))
        assert isinstance(found, Attempt) == bool(places)
        if isinstance(found, Attempt):
            assert found.replica.name in places
            held.append(found)


def test_a_place_is_not_waited_for_that_only_chance_has_left_unseen(full_pool):
    """What least expected work has seen of the pool is rarely one of the ten with a place."""
    pool = full_pool("least_expected_work", range(10))
    assert sum(passing(pool, 200).values()) == 200


def test_a_faster_one_may_still_be_worth_the_wait_in_a_large_pool(full_pool):
    pool = full_pool("least_expected_work", range(100, 110), replicas=[{"weight": 50.0}] * 100 + [{}] * 100)
    assert pool.begin(100.0, 1.0).preferred.spec.weight == 50.0


def test_few_places_are_not_looked_for_among_all_each_time(full_pool, monkeypatch):
    looked_at = 0

    def counting(replicas, ask):
        nonlocal looked_at
        looked_at += len(replicas)
        return with_slot(replicas, ask)

    pool = full_pool("round_robin", range(4))
    monkeypatch.setattr(free_slots, "with_slot", counting)
    passing(pool, 100)
    assert looked_at <= 100 * 5 + 2 * free_slots.LOOKS + SIZE
    pool.refresh(1.1)
    assert not pool.admission.free_slots.few, "nobody is told of slots by a list that is gone"


@pytest.mark.parametrize("strategy", ["random", "power_of_two", *KEYED])
def test_what_a_strategy_knows_of_all_is_kept(full_pool, strategy):
    """It would have to be made anew for the next request, at a price by the size of the pool."""
    pool = full_pool(strategy, range(0, SIZE, 20))
    passing(pool, 50)
    keeper = getattr(pool.strategy, "_draw", pool.strategy)
    assert keeper._of is pool._eligible


# --- the strategy's own choice among them -----------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "heavy", "free"),
    [
        ("round_robin", 9.0, range(0, SIZE, 5)),
        ("round_robin", 9.0, range(0, SIZE, 20)),
        ("latency_aware", 9.0, range(0, SIZE, 5)),
        ("random", 3.0, range(0, SIZE, 2)),
    ],
)
def test_shares_of_those_with_a_place_go_by_weight(full_pool, strategy, heavy, free):
    weights = [heavy if number % 8 == 0 else 1.0 for number in range(SIZE)]
    pool = full_pool(strategy, free, replicas=[{"weight": weight} for weight in weights])
    shares = Counter()
    for turn in range(12):
        shares += passing(pool, 500, 1.0 + turn)
    share = sum(count for name, count in shares.items() if weights[int(name[1:])] == heavy) / 6000
    expected = sum(weights[number] for number in free if weights[number] == heavy)
    expected /= sum(weights[number] for number in free)
    assert share == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("strategy", ["least_connections", "least_response_time", "peak_ewma"])
def test_the_better_of_those_with_a_place_are_taken(full_pool, strategy):
    pool = full_pool(strategy, range(0, SIZE, 2))
    for number in range(0, SIZE, 2):
        # Failures count as load, and take no place; so whoever is picked at first is full.
        pool.replicas[number].peer_load = pool.replicas[number].load = 3 if number % 8 == 0 else 9
    shares = passing(pool, 400)
    assert sum(shares[f"r{number}"] for number in range(0, SIZE, 8)) >= 390


@pytest.mark.parametrize("size", [16, SIZE])
@pytest.mark.parametrize("every", [2, 40])
def test_a_session_whose_replica_is_full_goes_to_the_next_on_the_ring(full_pool, size, every):
    free = range(0, size, min(every, size - 1))
    pool = full_pool("consistent_hash", free, replicas=size, parameters={"load_bound": 100.0})
    names = {f"r{number}" for number in free}
    spilled = 0
    for key in KEYS[:300]:
        found = pool.begin(1.0, 1.0, key=key)
        found.settle(Outcome.CANCELLED, 1.0)
        strategy = pool.strategy
        onward = strategy._ring.onward(strategy._ring.nearest(key[0], strategy._among), strategy._among)
        assert found.replica is next(one for one in onward if one.name in names)
        spilled += found.replica is not strategy.home
        again = pool.begin(1.0, 1.0, key=key, excluded=(found.replica,))
        again.settle(Outcome.CANCELLED, 1.0)
        assert again.replica.name in names - {found.replica.name}
    assert spilled > 100
    assert pool.counters.affinity_spilled == spilled


@pytest.mark.parametrize("size", [16, SIZE])
@pytest.mark.parametrize("every", [2, 14])
def test_a_prompt_whose_replica_is_full_goes_to_another_and_again_to_that_one(full_pool, size, every):
    parameters = {"load_bound": 100.0}
    pool = full_pool("prefix_affinity", range(0, size, every), replicas=size, parameters=parameters)
    prompts = [(key[0], key[0] ^ 1, key[0] ^ 2) for key in KEYS[:60]]
    for prompt in prompts:
        pool.strategy.remember(pool.replicas[1], prompt)
    went = {}
    for prompt in prompts * 3:
        found = pool.begin(1.0, 1.0, key=prompt)
        found.settle(Outcome.CANCELLED, 1.0)
        assert went.setdefault(prompt, found.replica) is found.replica
    assert len(set(went.values())) > 1


def test_of_those_with_a_place_the_one_that_knows_most_is_taken(full_pool):
    pool = full_pool("prefix_affinity", [2, 3, 4], replicas=6, parameters={"load_bound": 100.0})
    for key in KEYS[:20]:
        prompt = tuple(key[0] * odd % (1 << 64) for odd in (1, 3, 5, 7))
        for number, blocks in ((0, 4), (2, 1), (3, 3), (4, 2)):
            pool.strategy.remember(pool.replicas[number], prompt[:blocks])
        found = pool.begin(1.0, 1.0, key=prompt)
        found.settle(Outcome.CANCELLED, 1.0)
        assert (pool.strategy.home.name, found.replica.name) == ("r0", "r3")


# --- other workers, other sites --------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["round_robin", *KEYED])
def test_places_that_other_workers_free_are_found_and_none_is_given_twice(make_snapshot, strategy):
    shared = SharedCounters.create(workers=2, replicas=256)
    snapshot = make_snapshot(100, strategy=strategy, max_concurrency=2, slow_start_s=0.0)
    pools = [Pool(snapshot, SharedCounters.attach(shared.fd, worker), Random(worker)) for worker in (0, 1)]
    for pool in pools:
        pool.refresh(1.0)
    rng, now, held, refused = Random(8), 1.0, [], 0
    for step in range(1200):
        if held and rng.random() < (0.1 if step < 300 else 0.5):
            held.pop(rng.randrange(len(held))).settle(Outcome.CANCELLED, now)
            continue
        now += rng.choice((0.0, 2 * COUNTS_EVERY_S))
        looked = now >= pools[step % 2]._due
        found = pools[step % 2].begin(1.0, now, key=KEYS[step])
        if isinstance(found, Attempt):
            held.append(found)
        else:
            refused += 1
            assert not looked or len(held) == 200
        assert max(Counter(one.replica.name for one in held).values()) <= 2
    assert refused > 50


@pytest.mark.parametrize("half", [4, 100])
def test_a_better_place_here_may_be_worth_the_wait_where_others_have_one(full_pool, half):
    """Here all but one are fast, and full; the slow one's place is free or not."""
    here = [{"weight": 50.0, "site": "east"}] * (half - 1) + [{"site": "east"}]
    given = {"replicas": here + [{"site": "west"}] * half, "site": "east", "locality": {"spill_above": 1.0}}
    pool = full_pool("least_expected_work", range(half - 1, 2 * half), **given)
    assert pool.begin(100.0, 1.0).preferred.spec.weight == 50.0
    pool = full_pool("least_expected_work", range(half, 2 * half), **given)
    assert pool.begin(100.0, 1.0).replica.spec.site == "west"


@pytest.mark.parametrize("size", [16, SIZE])
def test_a_session_that_its_site_has_no_place_for_has_one_home_elsewhere(full_pool, size):
    replicas = [{"site": "west" if number % 2 else "east"} for number in range(size)]
    given = {"replicas": replicas, "site": "east", "locality": {"spill_above": 1.0}}
    pool = full_pool("consistent_hash", range(1, size, 2), **given)
    went = {}
    for key in KEYS[:40] * 2:
        found = pool.begin(1.0, 1.0, key=key)
        found.settle(Outcome.CANCELLED, 1.0)
        assert found.replica.spec.site == "west"
        assert went.setdefault(key, found.replica) is found.replica
    assert len(set(went.values())) > 3


def test_the_pools_here_are_large_and_small():
    assert 16 <= LARGE_POOL < SIZE
