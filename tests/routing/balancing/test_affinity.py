"""Keys: how a request's key comes to the strategy that goes by it, whatever else decides about a place."""

import subprocess
import sys
from dataclasses import replace

import pytest

from routing.balancing.affinity import Affinity
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.balancer import Balancer
from routing.balancing.pool.pool import DEQUEUED, Attempt
from routing.balancing.strategies.least_connections import LeastConnections
from routing.contract.policy import Queue


class ByNumber(LeastConnections):
    """The replica of the key's own number; those in front of it that are no candidates do not count."""

    def __init__(self):
        self.affinity = Affinity()
        self.home = None
        self.remembered = []

    def pick_near(self, candidates, work, now, rng, key):
        self.home = next((one for one in candidates if one.name == f"r{key[0]}"), None)
        return self.home or candidates[0]

    def pick_among(self, found, work, now, rng, key):
        return self.pick_near(found, work, now, rng, key)

    def remember(self, replica, key):
        self.remembered.append((replica.name, key))


@pytest.fixture
def keyed_pool(make_pool):
    def make(replicas, **policy):
        pool = make_pool(replicas, **policy)
        pool.strategy = ByNumber()
        pool._slow_path.terms = replace(pool._slow_path.terms, strategy=pool.strategy)
        pool.affinity = pool.strategy.affinity
        pool._pick = pool.strategy.pick
        return pool

    return make


def test_the_strategy_is_asked_by_key_and_told_where_it_went(keyed_pool):
    pool = keyed_pool(4)
    assert pool.begin(1.0, 1.0, key=(2, 5)).replica.name == "r2"
    assert pool.strategy.remembered == [("r2", (2, 5))]


def test_the_only_candidate_is_remembered_as_well(keyed_pool):
    pool = keyed_pool([{}, {"admin_state": "draining"}])
    assert pool.begin(1.0, 1.0, key=(1,)).replica.name == "r0"
    assert pool.strategy.remembered == [("r0", (1,))]


def test_those_tried_are_left_out(keyed_pool):
    pool = keyed_pool(3)
    tried = (pool.begin(1.0, 1.0, key=(1,)).replica,)
    assert pool.begin(1.0, 1.0, tried, key=(1,)).replica.name != "r1"


def test_a_full_replica_is_passed_over_by_key(keyed_pool):
    pool = keyed_pool([{"max_concurrency": 1}, {"max_concurrency": 2}, {"max_concurrency": 3}])
    assert [pool.begin(1.0, 1.0, key=(1,)).replica.name for _ in range(3)] == ["r1", "r1", "r0"]
    assert pool.begin(1.0, 1.0, key=(1,)).replica.name == "r2"
    assert pool.strategy.remembered[-2:] == [("r0", (1,)), ("r2", (1,))]


def test_a_refused_request_is_not_remembered_and_waits_with_its_key(keyed_pool):
    pool = keyed_pool([{"max_concurrency": 1}] * 3, queue=Queue(size=4))
    held = [pool.begin(1.0, 1.0, key=(number,)) for number in range(3)]
    assert not isinstance(pool.begin(1.0, 1.0, key=(2,)), Attempt)
    assert len(pool.strategy.remembered) == 3
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 1.1)
    assert pool.begin(1.0, 1.1, turn=DEQUEUED, key=(2,)).replica.name == "r2"


def test_a_replica_on_probation_gets_its_probe_whatever_the_key(keyed_pool, fail):
    pool = keyed_pool(2, ejection={"consecutive_failures": 2, "max_ejected_percent": 100})
    fail(pool, "r1", 2, 1.0)
    ends = pool.replicas[1].ejection.until
    assert pool.begin(1.0, ends - 0.1, key=(1,)).replica.name == "r0"
    probe = pool.begin(1.0, ends, key=(0,))
    assert (probe.replica.name, probe.probe) == ("r1", True)


def test_a_strategy_without_keys_leaves_them_aside(make_pool):
    pool = make_pool(2, strategy="round_robin")
    assert {pool.begin(1.0, 1.0, key=(1,)).replica.name for _ in range(2)} == {"r0", "r1"}


def test_a_library_call_may_have_a_key():
    balancer = Balancer(["http://10.0.0.1:8000", "http://10.0.0.2:8000"])
    with balancer.pick(key="session 7") as replica, balancer.pick(key=b"session 7") as other:
        assert replica is not other


def test_it_is_counted_whether_requests_went_where_their_keys_lead(keyed_pool):
    pool = keyed_pool([{"max_concurrency": 1}] * 3)

    def counted():
        counters = pool.counters
        return counters.affinity_kept, counters.affinity_spilled, counters.affinity_new

    first = pool.begin(1.0, 1.0, key=(1,))
    pool.begin(1.0, 1.0, key=(1,))
    assert counted() == (1, 1, 0)
    pool.begin(1.0, 1.0, key=(9,))
    assert counted() == (1, 1, 1)
    assert not isinstance(pool.begin(1.0, 1.0, key=(0,)), Attempt)
    first.settle(Outcome.LOST, 1.0)
    pool.begin(1.0, 1.0, (pool.replicas[0],), key=(1,))
    assert counted() == (1, 1, 1), "neither one that was refused, nor a second attempt"


# --- hashes -------------------------------------------------------------------------------------


def test_a_key_has_one_hash_and_nothing_has_none():
    assert len(Affinity().hashes(b"session 7")) == 1
    assert Affinity().hashes(b"session 7") != Affinity().hashes(b"session 8")
    assert Affinity().hashes(b"") == ()


def test_prompts_that_begin_alike_have_their_first_hashes_in_common():
    blocks = Affinity(block_bytes=16)
    beginning = bytes(range(48))
    one, other = (blocks.hashes(beginning + end) for end in (b"x" * 20, b"y" * 40))
    assert (len(one), len(other)) == (4, 5)
    assert one[:3] == other[:3]
    assert not set(one[3:]) & set(other[3:])


def test_a_block_counts_with_all_that_stands_before_it():
    blocks = Affinity(block_bytes=16)
    one, other = (blocks.hashes(first * 16 + b"same" * 4) for first in (b"x", b"y"))
    assert one[1] != other[1]


def test_hashes_are_the_same_in_every_process():
    text = (
        "from routing.balancing.affinity import Affinity; print(Affinity(block_bytes=4).hashes(b'session 7'))"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(Affinity(block_bytes=4).hashes(b"session 7"))
