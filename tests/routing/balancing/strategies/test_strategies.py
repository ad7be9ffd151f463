"""What each strategy does with traffic: shares, speeds, sizes. Seeds are stated; nothing sleeps."""

import sys
from collections import Counter
from random import Random

import pytest

from routing.balancing import strategies
from routing.balancing.admission.rejection import Rejection
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.fleet_speed import DEPTH_POWER
from routing.balancing.pool.pool import Pool

SPEEDS = [1.0] * 6 + [2.0] * 6 + [4.0] * 4
RATE_AT_85_PERCENT = 0.85 * 4 * sum(SPEEDS) / 0.058


def bimodal(rng):
    """90 % of requests 20 ms and 10 % 400 ms at speed 1; the estimate is off by lognormal noise, sigma 1."""
    seconds = 0.02 if rng.random() < 0.9 else 0.4
    return seconds, seconds * 1000 * rng.lognormvariate(0, 1)


class Watched(list):
    """A list that counts what is taken out of it, by number or in a loop."""

    looked_at = 0

    def __getitem__(self, number):
        self.looked_at += 1
        return super().__getitem__(number)

    def __iter__(self):
        self.looked_at += len(self)
        return super().__iter__()


def fleet(weights=True):
    return [{"weight": speed if weights else 1.0} for speed in SPEEDS]


# --- round robin ---------------------------------------------------------------------------------


def test_round_robin_gives_each_its_share(make_pool, send):
    pool = make_pool([{"weight": w} for w in (5.0, 3.0, 1.0, 1.0)], strategy="round_robin")
    picks = Counter(send(pool, 1.0 + i * 0.001) for i in range(10_000))
    for name, share in {"r0": 0.5, "r1": 0.3, "r2": 0.1, "r3": 0.1}.items():
        assert picks[name] / 10_000 == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    "weights",
    [
        [1.0] * 7,
        [1.0] * 6 + [2.0] * 6 + [4.0] * 4,
        [0.5, 1.25, 3.3, 0.07],
        [100.0, 1.0, 1.0],
        [1 / 3, 2 / 3, 1e-3, 7.77],
    ],
    ids=lambda weights: f"{len(weights)} replicas",
)
@pytest.mark.parametrize("changed", [False, True], ids=["steady", "changed"])
def test_round_robin_shares_ten_thousand_requests_within_a_percent(
    make_pool, make_snapshot, send, weights, changed
):
    """``changed``: these have just been set, before that one replica weighed a million times the others."""
    pool = make_pool([{"weight": weight} for weight in weights], strategy="round_robin")
    if changed:
        heavy = [{"weight": 1e6 if number == 1 else 1.0} for number in range(len(weights))]
        pool.replace(make_snapshot(heavy, version=2, strategy="round_robin"))
        for _ in range(5000):
            send(pool, 1.0)
        back = [{"weight": weight} for weight in weights]
        pool.replace(make_snapshot(back, version=3, strategy="round_robin"))
    picks = Counter(send(pool, 2.0 + i * 0.001) for i in range(10_000))
    for number, weight in enumerate(weights):
        expected = 10_000 * weight / sum(weights)
        assert abs(picks[f"r{number}"] - expected) <= max(1.0, 0.01 * expected)


def test_round_robin_is_smooth(make_pool, send):
    pool = make_pool([{"weight": w} for w in (5.0, 1.0, 1.0)], strategy="round_robin")
    order = [send(pool, 1.0) for _ in range(7)]
    assert Counter(order) == {"r0": 5, "r1": 1, "r2": 1}
    longest = max(len(run) for run in "".join("a" if n == "r0" else "-" for n in order).split("-"))
    assert longest <= 2


def test_round_robin_keeps_shares_when_a_large_pool_is_sampled(make_pool, send):
    weights = [3.0] * 20 + [1.0] * 80
    pool = make_pool([{"weight": w} for w in weights], strategy="round_robin")
    picks = Counter(send(pool, 1.0) for _ in range(14_000))
    heavy = sum(picks[f"r{i}"] for i in range(20)) / 14_000
    assert heavy == pytest.approx(60 / 140, abs=0.01)
    assert len(picks) == 100


# --- least connections ---------------------------------------------------------------------------


def test_least_connections_fills_by_weight(make_pool):
    pool = make_pool([{"weight": 3.0}, {"weight": 1.0}], strategy="least_connections")
    held = [pool.begin(1.0, 1.0) for _ in range(40)]
    assert [replica.in_flight for replica in pool.replicas] == [30, 10]
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.0)


def test_least_connections_breaks_ties_at_random(make_pool, send):
    pool = make_pool(4, strategy="least_connections")
    picks = Counter(send(pool, 1.0) for _ in range(4000))
    assert all(abs(picks[f"r{i}"] - 1000) < 120 for i in range(4))


# --- least expected work -------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [4, None], ids=["slots known", "batching"])
def test_learns_speeds_without_being_told_weights(make_pool, simulate, slots):
    pool = make_pool(fleet(weights=False), max_concurrency=slots)
    simulation = simulate(pool, SPEEDS, slots=4, seed=7)
    simulation.run(RATE_AT_85_PERCENT * 0.7, until=11.0, sizes=bimodal)
    slow = sum(simulation.picked[f"r{i}"] for i in range(6)) / 6
    fast = sum(simulation.picked[f"r{i}"] for i in range(12, 16)) / 4
    assert fast > 2.5 * slow
    known = {r.name: r.seconds_per_work for r in pool.replicas}
    assert known["r0"] > 2 * known["r15"]


def test_where_answers_tell_tokens_the_speed_counts_for_more_than_the_depth(make_pool):
    pool = make_pool(2, max_concurrency=None)
    attempts = [pool.begin(1.0, 1.0) for _ in range(2)]
    fast, slow = pool.replicas
    attempts += [Attempt(pool._outlier_detector, pool.speed, fast, 1.0, 1.0) for _ in range(2)]
    fast.cost, slow.cost = 1.0, 1.9
    # Three are at the fast one and one at the slow one: 4 against 2 · 1.9, or those to the power of 0.8.
    strategy = strategies.build("least_expected_work", {})
    assert strategy.pick([fast, slow], 1.0, 1.0, Random(1)) is slow
    fast.depth_power = slow.depth_power = DEPTH_POWER
    assert strategy.pick([fast, slow], 1.0, 1.0, Random(1)) is fast
    for attempt in attempts:
        attempt.settle(Outcome.CANCELLED, 2.0)


@pytest.mark.long
def test_size_aware_scoring_halves_the_tail_of_least_connections(make_pool, simulate):
    tails = {}
    for strategy in ("least_connections", "least_expected_work"):
        pool = make_pool(fleet(), strategy=strategy, max_concurrency=4)
        simulation = simulate(pool, SPEEDS, slots=4, seed=7)
        server = simulation.servers["r15"]
        slow = {
            6.0: lambda server=server: setattr(server, "speed", 4 / 3),
            11.0: lambda server=server: setattr(server, "speed", 4.0),
        }
        simulation.run(RATE_AT_85_PERCENT, until=16.0, sizes=bimodal, events=slow)
        tails[strategy] = simulation.p99(), simulation.mean()
    assert tails["least_expected_work"][0] < 0.65 * tails["least_connections"][0]
    # With late binding least connections is a central queue: its mean is as good as means can be.
    assert tails["least_expected_work"][1] < 1.1 * tails["least_connections"][1]


def test_turns_away_from_a_replica_that_became_slow_and_comes_back(make_pool, simulate):
    pool = make_pool(4, max_concurrency=None)
    simulation = simulate(pool, [4.0] * 4, slots=8, seed=11)
    constant = lambda rng: (0.05, 1.0)  # noqa: E731
    shares = []
    for begin, speed in ((1.0, 4.0), (11.0, 0.8), (21.0, 4.0), (31.0, 4.0)):
        simulation.servers["r0"].speed = speed
        before = simulation.picked.copy()
        simulation.run(300.0, begin=begin, until=begin + 10, sizes=constant)
        now = simulation.picked - before
        shares.append(now["r0"] / now.total())
    assert shares[0] == pytest.approx(0.25, abs=0.05)
    assert shares[1] < 0.12
    assert shares[3] > 0.15


def test_without_estimates_a_free_slot_at_the_fastest_comes_first(make_pool):
    pool = make_pool([{"weight": 2.0}, {"weight": 1.0}], max_concurrency=2)
    held = [pool.begin(0.0, 1.0) for _ in range(4)]
    assert [attempt.replica.name for attempt in held] == ["r0", "r0", "r1", "r1"]
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.0)


def test_a_long_queue_counts_by_its_work(make_pool):
    pool = make_pool(2, max_concurrency=1)
    long = pool.begin(100.0, 1.0)
    short = pool.begin(1.0, 1.0)
    assert isinstance(long, Attempt)
    assert isinstance(short, Attempt)
    assert long.replica is not short.replica
    behind = pool.begin(1.0, 1.0)
    assert isinstance(behind, Rejection)
    assert behind.preferred is short.replica
    for attempt in (long, short):
        attempt.settle(Outcome.CANCELLED, 1.0)


def test_a_replica_that_fails_at_once_gets_almost_nothing(make_pool):
    """Nothing may be ejected: the failure penalty alone has to do it."""
    pool = make_pool(4, ejection={"max_ejected_percent": 0.0})
    bad = pool.replicas[0]
    rng, now, picks, ends = Random(3), 1.0, Counter(), []
    for _ in range(8000):
        now += rng.expovariate(400)
        while ends and ends[0][0] <= now:
            at, attempt = ends.pop(0)
            attempt.settle(Outcome.FAILED if attempt.replica is bad else Outcome.SUCCESS, at)
        attempt = pool.begin(1.0, now)
        picks[attempt.replica.name] += 1
        took = 0.001 if attempt.replica is bad else 0.05
        ends.append((now + took, attempt))
        ends.sort(key=lambda end: end[0])
    assert bad.ejection.count == 0
    assert picks["r0"] / 8000 < 0.01


def test_speed_survives_a_change_of_strategy(make_pool, make_snapshot, send):
    pool = make_pool(2)
    for i in range(50):
        send(pool, 1.0 + i * 0.01, took=0.2)
    known = [replica.seconds_per_work for replica in pool.replicas]
    pool.replace(make_snapshot(2, version=2, strategy="round_robin"))
    assert pool.strategy.name == "round_robin"
    assert [replica.seconds_per_work for replica in pool.replicas] == known


def test_a_new_weight_counts_at_once(make_pool, make_snapshot, send):
    pool = make_pool(2)
    for i in range(200):
        send(pool, 1.0 + i * 0.01, took=0.2)
    pool.replace(make_snapshot([{"weight": 4.0}, {}], version=2))
    held = [pool.begin(1.0, 3.1) for _ in range(10)]
    assert pool.replicas[0].in_flight >= 7
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 3.2)


def test_streams_teach_as_they_pass(make_pool):
    """One long stream is slow, and none has ended yet: the next requests go elsewhere."""
    pool = make_pool(2)
    for i in range(20):
        attempt = pool.begin(10.0, 1.0 + i)
        attempt.settle(Outcome.SUCCESS, 1.1 + i, output_tokens=100)
    streams = [pool.begin(10.0, 30.0), pool.begin(10.0, 30.0)]
    slow, fast = (stream.replica for stream in streams)
    for tick in range(1, 101):
        streams[0].heard(30.0 + tick * 0.1, tokens=1)
        streams[1].heard(30.0 + tick * 0.1, tokens=100)
    pool.refresh(40.0)
    assert slow.seconds_per_work > 5 * fast.seconds_per_work
    for stream in streams:
        stream.settle(Outcome.SUCCESS, 40.0)
    assert (slow.output_tokens, fast.output_tokens) != (0, 0)


# --- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", strategies.names())
def test_weight_zero_receives_nothing_new(make_pool, send, strategy):
    pool = make_pool([{"weight": 0.0}, {}, {}], strategy=strategy)
    assert "r0" not in {send(pool, 1.0 + i * 0.001) for i in range(500)}


@pytest.mark.parametrize("strategy", strategies.names())
def test_independent_workers_do_not_move_in_step(make_snapshot, strategy):

    firsts = {
        Pool(make_snapshot(8, strategy=strategy), None, Random(s)).begin(1, 1).replica.name for s in range(40)
    }
    assert len(firsts) >= 6


@pytest.mark.parametrize("strategy", strategies.names())
def test_only_the_eligible_are_picked(make_pool, send, strategy):
    states = [{"admin_state": "draining"}, {"health": "down"}, {}, {"admin_state": "maintenance"}, {}, {}]
    pool = make_pool(states, strategy=strategy)
    assert {send(pool, 1.0 + i * 0.001) for i in range(600)} == {"r2", "r4", "r5"}


@pytest.mark.parametrize("strategy", strategies.names())
def test_a_retry_goes_to_somebody_else(make_pool, strategy):
    pool = make_pool(3, strategy=strategy)
    tried = (pool.replicas[0], pool.replicas[2])
    for now in range(1, 20):
        attempt = pool.begin(1.0, float(now), tried)
        attempt.settle(Outcome.SUCCESS, now + 0.1)
        assert attempt.replica.name == "r1"


@pytest.mark.parametrize("strategy", strategies.names())
def test_heavier_means_more_when_all_are_new(make_pool, strategy):
    """90 requests that stay, on three replicas of weights 6, 2 and 1."""
    pool = make_pool([{"weight": weight} for weight in (1.0, 6.0, 2.0)], strategy=strategy)
    held = [pool.begin(1.0, 1.0) for _ in range(90)]
    counts = [replica.in_flight for replica in pool.replicas]
    assert counts[1] > 1.5 * counts[2] > 1.5 * counts[0] > 0
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.0)


@pytest.mark.parametrize("strategy", strategies.names())
@pytest.mark.parametrize("size", [1, 2, 65, 250])
def test_any_size_of_pool(make_pool, strategy, size):
    pool = make_pool(size, strategy=strategy)
    held = [pool.begin(1.0, 1.0) for _ in range(12 * size)]
    assert sum(replica.in_flight > 0 for replica in pool.replicas) > 0.95 * size
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, 1.0)


@pytest.mark.parametrize("strategy", strategies.names())
def test_its_file_tells_theory_source_and_weakness(strategy):
    words = sys.modules[type(strategies.build(strategy, {})).__module__].__doc__
    assert [word for word in ("Theory.", "Source:", "Weakness:") if f"\n{word}" not in words] == []


@pytest.mark.parametrize("strategy", strategies.names())
def test_equal_replicas_are_picked_equally_often(make_pool, strategy):
    """Ties are broken at random: in a pool that nobody knows anything of, each is as often the first."""
    rng, firsts = Random(5), Counter()
    for _ in range(400):
        pool = make_pool(4, strategy=strategy)
        firsts[pool.strategy.pick(pool.replicas, 1.0, 1.0, rng).name] += 1
    assert min(firsts[f"r{number}"] for number in range(4)) > 70


@pytest.mark.parametrize("strategy", strategies.names())
def test_a_large_pool_is_not_looked_at_as_a_whole(make_pool, strategy):
    """Above 64 a sample of 16 is compared; what is looked at once a list, such as sums, does not count."""
    pool = make_pool(200, strategy=strategy)
    pool.refresh(1.0)
    candidates = Watched(pool.replicas)
    for _ in range(3):
        pool.strategy.pick(candidates, 1.0, 1.0, Random(1))
    candidates.looked_at = 0
    for seed in range(20):
        pool.strategy.pick(candidates, 1.0, 1.0, Random(seed))
    assert candidates.looked_at <= 20 * 17


# --- the registry --------------------------------------------------------------------------------


def test_registry_describes_what_can_be_set():
    assert strategies.names()[0] == "least_expected_work"
    description = strategies.describe("least_expected_work")
    (kappa,) = description.parameters
    assert (kappa.name, kappa.type, kappa.default, kappa.minimum, kappa.maximum) == (
        "kappa",
        "number",
        3.0,
        0,
        20,
    )
    assert kappa.words
    assert description.sentence
    assert strategies.describe("round_robin").parameters == []


@pytest.mark.parametrize("name", strategies.names())
def test_every_parameter_has_words_and_bounds_and_its_default_is_valid(name):
    description = strategies.describe(name)
    assert description.sentence.endswith(".")
    for parameter in description.parameters:
        assert parameter.words.endswith(".")
        if parameter.type in ("number", "integer"):
            assert None not in (parameter.minimum, parameter.maximum)
    strategies.build(name, {one.name: one.default for one in description.parameters})


def test_registry_builds_with_parameters():
    strategy = strategies.build("least_expected_work", {"kappa": 5})
    assert strategy.kappa == 5.0


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("fastest", {}, "there is no strategy 'fastest'; choose one of: least_expected_work"),
        ("round_robin", {"kappa": 1}, "round_robin has no parameter 'kappa'; it has none"),
        ("least_expected_work", {"kapa": 1}, "no parameter 'kapa'; its parameters are: kappa"),
        ("least_expected_work", {"kappa": -1}, "must be between 0 and 20, not -1"),
        ("least_expected_work", {"kappa": float("nan")}, "must be between 0 and 20, not nan"),
        ("least_expected_work", {"kappa": "much"}, "must be a number, not 'much'"),
        ("least_expected_work", {"kappa": True}, "must be a number, not True"),
        ("power_of_two", {"choices": 1}, "must be between 2 and 16, not 1"),
        ("power_of_two", {"choices": 2.5}, "must be a whole number, not 2.5"),
        ("peak_ewma", {"tau_s": 0}, "must be between 0.1 and 3600, not 0"),
    ],
)
def test_registry_refuses_in_words(name, parameters, words):
    with pytest.raises(ValueError, match=words):
        strategies.build(name, parameters)
