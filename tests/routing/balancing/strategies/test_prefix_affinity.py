"""Prefix affinity: who knows most of a prompt, that load decides, what is remembered, what it is worth."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import ceil
from random import Random

import pytest

from routing.balancing.affinity import LONGEST_BYTES, Affinity
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.prefix_cache_index import Candidates, PrefixCacheIndex
from routing.contract.policy import Policy
from routing.shared.prefix_memory import (
    GROUP_TAGS,
    OLDER,
    PLACE_TAGS,
    PLACES,
    TAG_BYTES,
    UNTOUCHED_S,
    PrefixMemory,
)
from routing.simulator.batching import BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.fleets import Machine, SimulatedFleet
from routing.simulator.prefix_cache import PrefixCache, packed
from routing.simulator.requests import Request
from routing.simulator.servers import ServerModel
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import Traffic
from tests.clock import Clock


def hashes(*parts: int) -> tuple[int, ...]:
    """``hashes(1, 2)`` and ``hashes(1, 3)`` have the first of two in common."""
    return Affinity(block_bytes=16).hashes(b"".join(b"%016d" % part for part in parts))


@pytest.fixture
def knowing(make_snapshot):
    def make(replicas, seed=1, **parameters):
        snapshot = make_snapshot(replicas, strategy="prefix_affinity", parameters=parameters)
        return Pool(snapshot, None, Random(seed))

    return make


class SameKey:
    def hashes(self, text):
        return (7 << 60,)


def send(pool, key, now=1.0, tried=()):
    attempt = pool.begin(1.0, now, tried, key=key)
    attempt.settle(Outcome.CANCELLED, now)
    return attempt.replica.name


def named(pool, name):
    return next(replica for replica in pool.replicas if replica.name == name)


# --- where prompts go ---------------------------------------------------------------------------


def test_what_goes_on_comes_to_where_it_began(knowing):
    pool = knowing(8)
    began = {number: send(pool, hashes(number)) for number in range(40)}
    assert len(set(began.values())) > 4
    for turn in range(1, 4):
        for number, name in began.items():
            assert send(pool, hashes(number, *range(turn))) == name
    assert (pool.counters.affinity_new, pool.counters.affinity_kept) == (40, 120)


def test_the_longest_known_beginning_wins(knowing):
    pool = knowing(3)
    strategy = pool.strategy
    strategy.remember(named(pool, "r0"), hashes(1))
    strategy.remember(named(pool, "r2"), hashes(1, 2, 3))
    strategy.remember(named(pool, "r1"), hashes(1, 2))
    assert send(pool, hashes(1, 2, 3, 4)) == "r2"
    assert send(pool, hashes(1, 2, 9, 4)) in ("r1", "r2")


def test_those_that_were_tried_are_left_out(knowing):
    pool = knowing(4)
    first = send(pool, hashes(1, 2))
    again = send(pool, hashes(1, 2), tried=(named(pool, first),))
    assert again != first
    assert send(pool, hashes(1, 2, 3), tried=(named(pool, first),)) == again


def test_a_beginning_that_all_send_spreads_as_far_as_load_takes_it(knowing):
    pool = knowing(4)
    held = []
    for number in range(60):
        held.append(pool.begin(1.0, 1.0, key=hashes(1, 2, number)))
        assert held[-1].replica.load <= ceil(1.5 * (number + 1) / 4)
    assert pool.counters.affinity_spilled > 0
    shares = Counter(attempt.replica.name for attempt in held)
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.0)
    assert len(shares) >= 3
    knows = {
        one.name for one in pool.replicas if pool.strategy._known.length(one.prefix_column, hashes(1, 2), 0)
    }
    assert knows == set(shares), "each knows it from then on"


@pytest.mark.parametrize("order", list(permutations(("r0", "r1", "r2"))))
def test_one_over_the_bound_is_passed_over_for_the_one_that_knows_most_besides(knowing, order):
    """Whichever that is: a replica that knows nothing of it may be drawn in its place by chance."""
    pool = knowing(4)
    most, more, little = order
    for name, known in ((most, (1, 2, 3)), (more, (1, 2)), (little, (1,))):
        pool.strategy.remember(named(pool, name), hashes(*known))
    assert [pool.begin(1.0, 1.0, key=hashes(1, 2, 3)).replica.name for _ in range(2)] == [most, more]
    assert (pool.counters.affinity_kept, pool.counters.affinity_spilled) == (1, 1)


def test_the_bound_goes_by_learned_speed(knowing):
    pool = knowing([{"weight": 4.0}, {}, {}, {}])
    pool.strategy.remember(named(pool, "r0"), hashes(1, 2))
    held = Counter(pool.begin(1.0, 1.0, key=hashes(1, 2)).replica.name for _ in range(28))
    assert ceil(1.5 * 28 / 4) < held["r0"] <= ceil(1.5 * 28 * 4 / 7)


def test_a_fleet_whose_answers_all_take_no_time_is_asked_on(knowing):
    """As a library with a coarse clock sees it."""
    pool = knowing(3)
    for turn in range(1000):
        now = 1.0 + turn / 5
        pool.begin(1.0, now, key=hashes(turn % 7)).settle(Outcome.SUCCESS, now)
    pool.unreachable(pool.replicas[0], "nothing listens", 201.0)
    assert send(pool, hashes(1), 201.0) in {"r1", "r2"}


def served(pool, text):
    """Requests of 0.1 s at four servers that share themselves out, at 85 % of what these can do: how many
    each of them got, and the p99 in seconds."""
    rng, step_s, now, due = Random(2), 0.01, 1.0, 1.0
    busy, taken = {one: [] for one in pool.replicas}, []
    counts = dict.fromkeys(busy, 0)
    while now < 21.0:
        while due <= now:
            due += rng.expovariate(0.85 * 4 / 0.1)
            key = pool.affinity.hashes(text + b"%d" % len(taken)) if pool.affinity else ()
            attempt = pool.begin(100.0, now, key=key)
            counts[attempt.replica] += 1
            busy[attempt.replica].append([0.1, now, attempt])
        for running in busy.values():
            each_s = step_s / max(1, len(running))
            for request in running[:]:
                request[0] -= each_s
                if request[0] <= 0:
                    running.remove(request)
                    request[2].settle(Outcome.SUCCESS, now, at_once=True)
                    taken.append(now - request[1])
        now += step_s
    taken += [now - began for running in busy.values() for _, began, _ in running]
    return list(counts.values()), sorted(taken)[int(len(taken) * 0.99)]


@pytest.mark.parametrize("strategy", ["prefix_affinity", "consistent_hash"])
def test_where_one_key_is_in_all_requests_nobody_is_idle(make_snapshot, strategy, monkeypatch):
    def pool(name):
        return Pool(make_snapshot(4, strategy=name, slow_start_s=0), None, Random(1))

    near = pool(strategy)
    if strategy == "consistent_hash":
        monkeypatch.setattr(near, "affinity", SameKey())
    counts, p99_s = served(near, b"You are a helpful assistant. " * 40)
    _, soonest_p99_s = served(pool("least_expected_work"), b"")
    assert min(counts) > sum(counts) / 4 / 3
    assert p99_s < 2.2 * soonest_p99_s


def test_a_prompt_that_nobody_knows_goes_to_one_of_the_soonest(knowing):
    pool = knowing([{"weight": 8.0}, {"weight": 8.0}, {}, {}])
    assert {send(pool, hashes(number)) for number in range(40)} == {"r0", "r1"}


def test_without_a_prompt_it_is_least_expected_work(knowing):
    pool = knowing([{"weight": 8.0}, {}])
    assert {pool.begin(1.0, 1.0).replica.name for _ in range(4)} == {"r0"}


def test_workers_that_know_the_same_beginning_go_on_at_the_same_replica(knowing):
    workers = [knowing(8, seed=seed) for seed in (1, 2)]
    for pool in workers:
        for replica in pool.replicas:
            pool.strategy.remember(replica, hashes(1, 2))
    for number in range(30):
        first, second = (send(pool, hashes(1, 2, number)) for pool in workers)
        assert first == second


def test_in_a_large_pool_it_is_found_again(knowing):
    pool = knowing(200)
    for replica in pool.replicas:
        pool.strategy.remember(replica, hashes(1, 2))
    began = {number: send(pool, hashes(1, 2, number)) for number in range(50)}
    for number, name in began.items():
        assert send(pool, hashes(1, 2, number, 7)) == name
        assert send(pool, hashes(1, 2, number, 7, 8)) == name
    assert len(set(began.values())) > 20


def test_what_is_known_outlives_tables_and_other_parameters(knowing, make_snapshot):
    pool = knowing(8)
    began = {number: send(pool, hashes(number)) for number in range(20)}
    for version, parameters in ((2, {}), (3, {"load_bound": 3.0})):
        policy = {"strategy": "prefix_affinity", "parameters": parameters}
        pool.replace(make_snapshot(8, version=version, **policy))
        assert {number: send(pool, hashes(number, 1)) for number in range(20)} == began


# --- what is remembered -------------------------------------------------------------------------


def index(memory_mb=1, replicas=1):
    return PrefixCacheIndex(PrefixMemory.private(), "llm", replicas, memory_mb)


def column_of(known, *names):
    columns = known.memory.claim(known.fleet, names, known.places)
    return columns[0] if len(names) == 1 else columns


def test_what_was_used_least_lately_is_forgotten_first():
    known = index(replicas=16_000)
    page = column_of(known, "a")
    drawn = [hashes(number, 1, 2) for number in range(2000)]
    for key in drawn:
        known.note(page, key)
        known.note(page, drawn[0])
        assert known.length(page, hashes(0, 1, 2, 3), 0) == 3, "what is in use"
    kept = [known.length(page, key, 0) == 3 for key in reversed(drawn)]
    fit = 2 * known.places // 3
    assert sum(kept[: fit // 4]) > 0.9 * fit // 4, "of a quarter of what fits in"
    assert sum(kept[4 * fit :]) < 10


def test_what_is_noted_says_what_is_new_there():
    known = index()
    first, second = column_of(known, *"ab")
    key = hashes(1, 2, 3)
    assert known.note(first, key) == list(key)
    assert known.note(first, key) == []
    assert known.note(first, hashes(1, 2, 4)) == [hashes(1, 2, 4)[-1]]
    assert known.note(second, key) == list(key)


def test_memory_is_what_it_is_said_to_be_however_many_replicas():
    """Tags of four bytes, in places of two: as many as 4 MiB for each sixteen replicas hold, and 4 KiB at
    least."""
    each = 2 * 16 * TAG_BYTES
    for replicas, memory_mb, places in (
        (1, 32, PLACES),
        (128, 32, PLACES),
        (129, 32, PLACES // 2),
        (1000, 32, 4096),
        (16_000, 1, 32),
    ):
        known = index(memory_mb, replicas)
        assert known.places == places
        assert places * each * ceil(replicas / 16) <= max(memory_mb << 20, 4096 * 1000)
    known = index(1, 256)
    column, rng = column_of(known, "a"), Random(1)
    for _ in range(3000):
        known.note(column, [rng.getrandbits(64) for _ in range(6)])
    written = [at for at, tag in enumerate(known.tags[: 2 * GROUP_TAGS]) if tag]
    assert min(written) >= column >= GROUP_TAGS, "nothing in the group that is nobody's"
    assert max(written) < column + (1 << 16) / TAG_BYTES
    assert {at % PLACE_TAGS for at in written} == {column % PLACE_TAGS, column % PLACE_TAGS + OLDER}


def test_half_of_what_is_known_is_found_after_the_fleet_has_grown_or_shrunk():
    memory, rng = PrefixMemory.private(), Random(1)
    small, large = PrefixCacheIndex(memory, "llm", 128, 32), PrefixCacheIndex(memory, "llm", 256, 32)
    column = column_of(small, "a")
    keys = [[rng.getrandbits(64)] for _ in range(2000)]
    for one, other in ((small, large), (large, small)):
        memory.clear(column)
        for key in keys:
            one.note(column, key)
        assert 0.45 < sum(other.length(column, key, 0) for key in keys) / len(keys) < 0.56


@pytest.mark.parametrize("replicas", [3, 16, 17, 64])
def test_who_knows_most_is_the_same_asked_by_groups_and_one_by_one(make_snapshot, replicas):
    pool, rng = Pool(make_snapshot(replicas, strategy="prefix_affinity"), None, Random(1)), Random(2)
    known = pool.strategy._known
    known.introduce(pool.replicas)
    keys = [hashes(*(rng.randrange(3) for _ in range(rng.randrange(1, 9)))) for _ in range(400)]
    for key in keys[:60]:
        known.note(rng.choice(pool.replicas).prefix_column, key)
    some = Candidates(known, pool.replicas[1:])
    lengths = set()
    for key in keys:
        length, holders = some.longest(key)
        assert (length, set(holders)) == (length, set(known.longest(pool.replicas[1:], key)[1]))
        assert length == known.longest(pool.replicas[1:], key)[0]
        assert pool.replicas[0] not in holders
        lengths.add(length)
    assert len(lengths) > 3


def test_without_a_column_prompts_are_served_all_the_same(make_snapshot):
    memory = PrefixMemory.create(groups=2)
    memory.claim("other", [f"{number}" for number in range(14)])
    pool = Pool(make_snapshot(4, strategy="prefix_affinity"), None, Random(1), prefixes=memory)
    names = {send(pool, hashes(number)) for number in range(40)}
    assert len(names) == 4
    assert not any(memory.tags[:GROUP_TAGS])


# --- what workers of one host share -----------------------------------------------------------------


def test_a_worker_knows_what_another_has_sent(make_snapshot):
    memory = PrefixMemory.private()
    snapshot = make_snapshot(8, strategy="prefix_affinity")
    workers = [Pool(snapshot, None, Random(seed), prefixes=memory) for seed in (1, 2, 3)]
    began = {number: send(workers[number % 3], hashes(number)) for number in range(60)}
    for number, name in began.items():
        assert send(workers[(number + 1) % 3], hashes(number, 1)) == name
        assert send(workers[(number + 2) % 3], hashes(number, 1, 2)) == name
    assert [worker.counters.affinity_new for worker in workers] == [20, 20, 20]
    late = Pool(snapshot, None, Random(4), prefixes=memory)
    assert {number: send(late, hashes(number, 1, 2, 3)) for number in began} == began


def test_a_replica_at_another_address_begins_with_nothing(make_snapshot, make_spec):
    memory = PrefixMemory.private()
    pool = Pool(make_snapshot(1, strategy="prefix_affinity"), None, Random(1), prefixes=memory)
    send(pool, hashes(1))
    moved = [{"url": "http://10.9.9.9:8000"}]
    pool.replace(make_snapshot(moved, version=2, strategy="prefix_affinity"))
    send(pool, hashes(1))
    assert pool.counters.affinity_new == 2


def test_columns_in_use_are_touched_and_one_that_was_given_away_is_claimed_again(make_snapshot):
    clock = Clock()
    memory = PrefixMemory.create(groups=2, clock=clock)
    pool = Pool(make_snapshot(2, strategy="prefix_affinity"), None, Random(1), prefixes=memory)
    for now in range(1, 1200):
        clock.now = now
        pool.refresh(float(now))
        send(pool, hashes(1), float(now))
    first = pool.replicas[0].prefix_column
    assert memory.claim("other", ["x"]) == [0], "the group is this fleet's"
    clock.now += UNTOUCHED_S + 1
    others = memory.claim("other", [f"{number}" for number in range(16)])
    assert first in others
    pool.refresh(clock.now)
    assert [replica.prefix_column for replica in pool.replicas] == [0, 0]
    assert send(pool, hashes(1), clock.now)
    clock.now += UNTOUCHED_S + 1
    assert send(pool, hashes(1), clock.now)
    assert any(replica.prefix_column for replica in pool.replicas)


def test_a_long_prompt_has_few_hashes_and_all_of_the_beginning_that_it_shares():
    affinity = Affinity(block_bytes=256)
    text = Random(1).randbytes(LONGEST_BYTES)
    whole = affinity.hashes(text + bytes(100_000))
    assert whole == affinity.hashes(text), "nothing behind that is looked at"
    assert 40 < len(whole) < 64
    for size in (255, 256, 4096, 70_000):
        shared = affinity.hashes(text[:size])
        assert whole[: len(shared)] == shared
        other = affinity.hashes(text[:size] + bytes(50_000))
        common = sum(one == two for one, two in zip(whole, other, strict=False))
        assert common == len(shared)
    assert affinity.hashes(text[:255]) == ()


# --- what it is worth ---------------------------------------------------------------------------

BLOCK_TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class Conversations:
    """Of some turns each, on one of 32 system prompts of 2,048 tokens; a turn begins with all before it."""

    name: str = "conversations"
    sentence: str = "turns that begin with those before them"
    rate: float = 80.0

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        rng = Random(traffic.seed)
        systems = [[rng.getrandbits(62) for _ in range(2048 // BLOCK_TOKENS)] for _ in range(32)]
        coming, begins = [], 0.0
        while (begins := begins + rng.expovariate(self.rate)) < traffic.duration_s:
            blocks = list(rng.choices(systems, [1 / rank for rank in range(1, 33)])[0])
            tokens, at = 2048, begins
            for _ in range(1 + int(rng.expovariate(0.2))):
                tokens += int(rng.lognormvariate(0, 0.7) * 200) + 10
                blocks += [rng.getrandbits(62) for _ in range(tokens // BLOCK_TOKENS - len(blocks))]
                output = int(rng.lognormvariate(0, 0.8) * 120) + 5
                coming.append((at, tokens, output, packed(blocks)))
                tokens += output
                at += rng.expovariate(1 / 4) + output * 0.02
        for at, tokens, output, key in sorted(coming):
            if at < traffic.duration_s:
                yield Request(
                    at, estimate=tokens + output, prompt_tokens=tokens, output_tokens=output, key=key
                )


def simulated(strategy: str, proxies: int) -> tuple[float, float]:
    """Share of prompt tokens that were not computed again, and the mean answer, in seconds."""
    caches: list[PrefixCache] = []

    def make(engine: Engine, speed: float) -> ServerModel:
        caches.append(PrefixCache(200_000, BLOCK_TOKENS))
        return BatchingServer(engine, speed, cached=caches[-1])

    machines = [
        Machine(name=f"r{number}", make=make, speed=speed)
        for number, speed in enumerate([1.0] * 6 + [2.0] * 6 + [4.0] * 4)
    ]
    setting = Setting(
        fleet=SimulatedFleet(machines=machines, protocol="openai"),
        workload=Conversations(),
        traffic=Traffic(duration_s=16.0, seed=1),
        policy=Policy(slow_start_s=0),
        proxies=proxies,
    )
    requests = simulate(setting, strategy).requests
    hits = sum(cache.hit_tokens for cache in caches) / sum(cache.tokens for cache in caches)
    return hits, sum(request.latency_s for request in requests) / len(requests)


@pytest.mark.long
@pytest.mark.parametrize(("proxies", "more", "less"), [(1, 0.08, 0.9), (4, 0.04, 0.95)])
def test_it_saves_prompts_and_time_where_beginnings_are_shared(proxies, more, less):
    hits, mean_s = simulated("least_expected_work", proxies)
    hits_near, mean_near_s = simulated("prefix_affinity", proxies)
    assert hits_near > hits + more
    assert mean_near_s < less * mean_s
