"""Consistent hashing: whose key is whose, what moves when replicas change, and that load decides."""

from collections import Counter
from itertools import islice
from math import ceil
from random import Random

import pytest

from routing.balancing import strategies
from routing.balancing.affinity import Affinity
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.strategies.bounded_load import BoundedLoad
from routing.balancing.strategies.hash_ring import HashRing

KEYS = [Affinity().hashes(b"session %d" % number) for number in range(2000)]


@pytest.fixture
def hashing(make_snapshot):
    """``hashing(4)``: a pool; ``hashing(5, version=2)``: a snapshot to replace its own by."""

    def make(replicas, version=0, **parameters):
        policy = {"strategy": "consistent_hash", "parameters": parameters}
        if version:
            return make_snapshot(replicas, version=version, **policy)
        return Pool(make_snapshot(replicas, **policy), None, Random(1))

    return make


def homes(pool, now=1.0, keys=KEYS):
    """Whose each key is while nothing else is in flight."""
    found = []
    for key in keys:
        attempt = pool.begin(1.0, now, key=key)
        attempt.settle(Outcome.CANCELLED, now)
        found.append(attempt.replica.name)
    return found


def moved(before, after):
    return [(old, new) for old, new in zip(before, after, strict=True) if old != new]


# --- whose key is whose -------------------------------------------------------------------------


def test_a_key_goes_to_the_same_replica_in_every_worker(hashing):
    assert homes(hashing(5)) == homes(hashing(5)) == homes(hashing(5), now=500.0)


def test_every_replica_has_its_share_of_the_keys(hashing):
    shares = Counter(homes(hashing(10)))
    assert len(shares) == 10
    assert max(shares.values()) < 1.4 * len(KEYS) / 10


@pytest.mark.parametrize("scale", [0.001, 1.0, 300.0])
def test_a_weight_counts_whatever_its_scale(hashing, scale):
    shares = Counter(homes(hashing([{"weight": 3.0 * scale}, {"weight": scale}] * 4)))
    heavy = sum(shares[f"r{number}"] for number in (0, 2, 4, 6))
    assert 0.69 < heavy / len(KEYS) < 0.81


def test_a_new_replica_takes_its_share_of_the_keys_and_no_other_moves(hashing):
    pool = hashing(20)
    before = homes(pool)
    pool.replace(hashing(21, version=2))
    after = homes(pool, now=100.0)
    changes = moved(before, after)
    assert {new for _, new in changes} == {"r20"}
    assert 0.6 / 21 < len(changes) / len(KEYS) < 1.5 / 21


def test_a_replica_that_leaves_gives_up_its_keys_and_no_other_moves(hashing):
    pool = hashing(20)
    before = homes(pool)
    pool.replace(hashing(19, version=2))
    assert {old for old, _ in moved(before, homes(pool, now=100.0))} == {"r19"}
    assert len(pool.strategy._ring._points) == 19, "and its points are forgotten"


def test_poor_health_moves_the_keys_of_that_replica_alone_and_only_while_it_lasts(hashing):
    pool = hashing(8)
    before = homes(pool)
    pool.replace(hashing([{}] * 3 + [{"health": "down", "has_passed": True}] + [{}] * 4, version=2))
    assert {old for old, _ in moved(before, homes(pool))} == {"r3"}
    pool.replace(hashing([{}] * 8, version=3))
    pool.replicas[3].slow_start.pending = False
    assert moved(before, homes(pool, now=900.0)) == []


def test_the_keys_of_one_that_is_out_are_where_they_would_be_without_it(hashing):
    pool = hashing([*[{}] * 7, {"admin_state": "draining"}])
    pool.replace(hashing(8, version=2))
    homes(pool)
    pool.replace(hashing([*[{}] * 7, {"admin_state": "draining"}], version=3))
    assert homes(pool) == homes(hashing(7))


def test_a_session_does_not_overflow_to_one_that_is_out(hashing):
    pool = hashing(4)
    homes(pool)
    pool.replace(hashing([{}, {}, {"admin_state": "draining"}, {}], version=2))
    held = Counter(pool.begin(1.0, 1.0, key=key).replica.name for key in KEYS[:40] for _ in range(12))
    assert set(held) == {"r0", "r1", "r3"}


def test_a_heavier_weight_takes_keys_from_the_others_alone(hashing):
    pool = hashing(8)
    before = homes(pool)
    pool.replace(hashing([{"weight": 2.0}, *[{}] * 7], version=2))
    changes = moved(before, homes(pool))
    assert {new for _, new in changes} == {"r0"}
    assert len(changes) > len(KEYS) / 16


def test_a_replica_at_another_url_keeps_its_keys(hashing):
    pool = hashing(4)
    before = homes(pool)
    pool.replace(hashing([{"url": "http://10.9.9.9:80"}, {}, {}, {}], version=2))
    assert moved(before, homes(pool, now=100.0)) == []
    pool.replace(hashing([{"url": "http://10.9.9.8:80"}, {}, {}, {}], version=3))
    assert moved(before, homes(pool, now=200.0)) == []


def test_one_that_was_tried_is_passed_over_for_the_next_on_the_ring(hashing):
    pool = hashing(6)
    key = KEYS[0]
    first = pool.begin(1.0, 1.0, key=key)
    other = pool.begin(1.0, 1.0, (first.replica,), key=key)
    assert other.replica is not first.replica
    other.settle(Outcome.SUCCESS, 1.0)
    again = pool.begin(1.0, 1.0, (first.replica,), key=key)
    assert again.replica is other.replica


def test_a_table_swap_that_leaves_the_policy_alone_keeps_the_ring(hashing):
    pool = hashing(4)
    homes(pool, keys=KEYS[:1])
    strategy = pool.strategy
    pool.replace(hashing(5, version=2))
    assert pool.strategy is strategy
    pool.replace(hashing(5, version=3, load_bound=2.0))
    assert pool.strategy is not strategy


# --- that load decides --------------------------------------------------------------------------


def test_a_session_overflows_to_its_next_replica_at_the_bound(hashing):
    """Of a session alone no replica has more than 1.25 times its share, the next request among them."""
    pool = hashing(4)
    order = []
    for number in range(40):
        attempt = pool.begin(1.0, 1.0, key=KEYS[7])
        order.append(attempt.replica.name)
        assert attempt.replica.load <= ceil(1.25 * (number + 1) / 4)
    assert order[0] != order[1]
    again = hashing(4)
    assert [again.begin(1.0, 1.0, key=KEYS[7]).replica.name for _ in range(40)] == order


def test_the_bound_goes_by_weight(hashing):
    pool = hashing([{"weight": 4.0}, {}, {}, {}])
    key = next(key for key in KEYS if homes(pool, keys=[key]) == ["r1"])
    held = Counter(pool.begin(1.0, 1.0, key=key).replica.name for _ in range(70))
    assert held["r1"] <= ceil(1.25 * 70 / 7)
    assert held["r0"] > 2 * held["r1"]


def test_a_wider_bound_lets_a_session_stay_and_is_taken_up_at_once(hashing):
    pool = hashing(4)
    assert len(Counter(pool.begin(1.0, 1.0, key=KEYS[0]).replica.name for _ in range(8))) > 1
    pool.replace(hashing(4, version=2, load_bound=100.0))
    assert len(Counter(pool.begin(1.0, 1.0, key=KEYS[0]).replica.name for _ in range(8))) == 1


def test_in_a_large_pool_sums_are_renewed_every_few_picks_and_right_between_them(hashing):
    pool = hashing(200)
    bound, candidates = BoundedLoad(1.0), pool.replicas
    for number in range(20):
        assert bound.per_share(candidates) == pytest.approx((number + 1) / 200)
        pool.begin(1.0, 1.0, key=KEYS[number])
    for replica in candidates:
        replica.load = 0
    assert [bound.per_share(candidates) for _ in range(4)][-1] <= 4 / 200


def test_a_new_replicas_keys_stay_where_they_were_until_slow_start_lets_it_have_them(hashing):
    pool = hashing(4)
    before = homes(pool)
    pool.replace(hashing(5, version=2))
    held = [pool.begin(1.0, 1.0, key=KEYS[number % 50]) for number in range(200)]
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 1.0)
    busy = [pool.begin(1.0, 1.1, key=key) for key in KEYS[:400]]
    new = [number for number, attempt in enumerate(busy) if attempt.replica.name == "r4"]
    assert len(new) <= ceil(1.25 * 400 * 0.1 / 4.1)
    assert {name for name, attempt in zip(before, busy, strict=False) if attempt.replica.name == name}


def test_a_request_without_a_key_goes_by_expected_work(hashing):
    pool = hashing([{"weight": 8.0}, {}])
    assert {pool.begin(1.0, 1.0).replica.name for _ in range(4)} == {"r0"}


# --- parameters ---------------------------------------------------------------------------------


def test_what_is_read_of_a_request_is_set_by_parameters():
    def affinity(**parameters):
        return strategies.build("consistent_hash", parameters).affinity

    assert affinity() == Affinity(header=b"x-session-id", user=True)
    assert affinity(header="X-Conversation", cookie="SID", user=False) == Affinity(b"x-conversation", b"SID")
    assert affinity(header="") == Affinity(user=True)


@pytest.mark.parametrize("bad", ["session id", "x:y", "é", "a" * 200, "x\r\ny", "x\n"])
def test_a_name_that_no_field_can_have_is_refused_in_words(bad):
    with pytest.raises(
        ValueError, match=r"'header' of consistent_hash must be the name of a header field .* or empty"
    ):
        strategies.build("consistent_hash", {"header": bad})
    with pytest.raises(ValueError, match="'cookie' of consistent_hash must be the name of a cookie"):
        strategies.build("consistent_hash", {"cookie": bad})


def test_a_ring_of_one_replica_has_it_everywhere(hashing):
    pool = hashing(1)
    ring = HashRing()
    ring.take(pool.replicas)
    assert set(ring.onward(ring.after(KEYS[0][0]), pool.replicas)) == set(pool.replicas)


def test_on_a_ring_the_first_point_follows_the_last(hashing):
    pool = hashing(100)
    ring = HashRing()
    ring.take(pool.replicas)
    last = 16 * 100 - 1
    near = list(dict.fromkeys(islice(ring.onward(last, pool.replicas), 16)))
    assert len(near) > 10
    assert ring.some_after(last, pool.replicas, list) == near


def test_a_ring_that_was_built_in_steps_is_the_one_that_is_built_at_once(make_pool):
    pool = make_pool([{"weight": 1.0 + n % 5, "url": f"http://10.1.0.1:{n + 1}"} for n in range(700)])
    at_once = HashRing()
    at_once.take(pool.replicas)
    steps, seen = HashRing.built([(replica, replica.spec.weight) for replica in pool.replicas]), 0
    try:
        while True:
            next(steps)
            seen += 1
    except StopIteration as end:
        built = end.value
    assert seen > 7
    among = frozenset(pool.replicas)
    rng = Random(4)
    for key in [rng.getrandbits(64) for _ in range(500)]:
        assert built.owner(built.nearest(key, among)) is at_once.owner(at_once.nearest(key, among))
    before = built._owned
    built.take(pool.replicas)
    assert built._owned is before, "nothing is left to be done"


@pytest.mark.parametrize("strategy", ["consistent_hash", "prefix_affinity"])
def test_a_staged_table_has_its_ring_before_the_first_request(make_snapshot, monkeypatch, strategy):
    table = Table()
    rows = [{"url": f"http://10.1.0.1:{n + 1}", "uid": f"u{n}"} for n in range(300)]
    added = []
    real = HashRing._add
    monkeypatch.setattr(HashRing, "_add", lambda ring, some: (added.append(len(some)), real(ring, some)))
    for version, listed in ((1, rows[:250]), (2, rows)):
        snapshot = make_snapshot(listed, version=version, strategy=strategy)
        for _ in table.stage(snapshot):
            pass
        assert table.apply_snapshot(snapshot)
        assert 0 < max(added) <= 100
        added.clear()
        assert isinstance(table.fleets["digits"].begin(1.0, float(version), key=(7, 8)), Attempt)
        assert not added
