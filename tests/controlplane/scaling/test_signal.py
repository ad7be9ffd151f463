"""How many replicas a fleet needs: a model of a fleet, second by second, against what its load and one
replica's capacity say."""

from collections.abc import Callable, Iterator
from math import ceil
from random import Random

import pytest
from msgspec import structs

from controlplane.scaling.arrivals import Arrivals
from controlplane.scaling.capacity import Service, ServiceSecond
from controlplane.scaling.signal import FleetSecond, Scaler, ScalingSignal, said_before
from routing.contract.policy import Scaling

SERVICE_S, LIMIT = 0.5, 8
"""Of a request at a slot server with so many places."""
QUEUE = 256
TARGET = Scaling().target_percent / 100
REPLICA_PER_S = LIMIT * TARGET / SERVICE_S


class ModelFleet:
    """Slot servers and one queue. Replicas start when they are asked for, and take ``start_s`` for it."""

    def __init__(self, rate: Callable[[float], float], replicas: int, start_s: float, seed: int) -> None:
        self.rate, self.start_s = rate, start_s
        self.taking, self.starting = replicas, list[float]()
        self.waiting = 0
        self.scaler = Scaler()
        self._rng = Random(seed)

    def second(self, now_s: float, policy: Scaling, *, follows: bool = True) -> ScalingSignal:
        self.taking += sum(at <= now_s for at in self.starting)
        self.starting = [at for at in self.starting if at > now_s]
        rate = self.rate(now_s)
        come = _poisson(self._rng, rate)
        most = self.taking * LIMIT / SERVICE_S
        offered = come + self.waiting
        served = min(offered, most)
        self.waiting = min(round(offered - served), QUEUE)
        busy = min(served * SERVICE_S, self.taking * LIMIT)
        signal = self.scaler.second(
            now_s,
            FleetSecond(
                arrivals_per_s=come,
                in_flight=round(busy) + self.waiting,
                waiting=self.waiting,
                served_per_s=served,
                limits=[LIMIT] * self.taking,
                limits_of_all=[LIMIT] * (self.taking + len(self.starting)),
                starting=len(self.starting),
                growth=1.0,
                kv_shares=[],
                start_s=self.start_s,
            ),
            policy,
        )
        if follows and signal.desired is not None:
            there = self.taking + len(self.starting)
            self.starting += [now_s + self.start_s] * max(signal.desired - there, 0)
            leaving = max(there - signal.desired, 0)
            kept = max(len(self.starting) - leaving, 0)
            self.taking -= leaving - (len(self.starting) - kept)
            del self.starting[kept:]
        return signal


def _poisson(rng: Random, mean: float) -> int:
    return round(max(rng.gauss(mean, mean**0.5), 0.0)) if mean > 50 else _knuth(rng, mean)


def _knuth(rng: Random, mean: float) -> int:
    count, left = 0, rng.expovariate(1.0)
    while left < mean:
        count, left = count + 1, left + rng.expovariate(1.0)
    return count


def against_oracle(
    rate: Callable[[float], float], duration_s: int, start_s: float, seed: int
) -> tuple[float, float]:
    """Replica-seconds that the signal was short of, and beyond, what an oracle says that knows the rate and
    the capacity; in parts of the oracle's."""
    fleet = ModelFleet(rate, ceil(rate(0.0) / REPLICA_PER_S), start_s, seed)
    missing = excess = needed = 0.0
    for second in range(duration_s):
        signal = fleet.second(float(second), Scaling(scale_down_after_s=60.0))
        if second < 60:
            continue  # until it is known how long a request takes
        oracle = ceil(rate(float(second)) / REPLICA_PER_S)
        assert signal.desired is not None
        needed += oracle
        missing += max(oracle - signal.desired, 0)
        excess += max(signal.desired - oracle, 0)
    return missing / needed, excess / needed


@pytest.mark.parametrize("peak", [40.0, 400.0, 4_000.0])
@pytest.mark.parametrize("start_s", [5.0, 60.0, 300.0])
def test_a_flash_sale_is_followed_as_by_who_knows_the_capacity(peak: float, start_s: float) -> None:
    def rate(at_s: float) -> float:
        return peak * min(max((at_s - 200.0) / 5.0 * 0.9 + 0.1, 0.1), 1.0)

    missing, excess = zip(*(against_oracle(rate, 600, start_s, seed) for seed in range(3)), strict=True)
    assert max(missing) <= 0.10
    assert max(excess) <= 0.20


def test_a_growing_load_is_met_by_the_time_replicas_have_started() -> None:
    fleet = ModelFleet(lambda at_s: 60.0 + 0.5 * at_s, 8, 60.0, 1)
    waited = 0
    for second in range(600):
        fleet.second(float(second), Scaling())
        waited += fleet.waiting if second > 180 else 0
    assert waited < 10  # of 90,000


def test_noise_neither_adds_nor_takes_away() -> None:
    fleet = ModelFleet(lambda _: 100.0, 10, 60.0, 5)
    said = [fleet.second(float(second), Scaling()).desired for second in range(3_600)][60:]
    assert set(said) == {ceil(100.0 / REPLICA_PER_S)}


def test_a_fleet_of_none_asks_for_one_as_soon_as_requests_wait() -> None:
    idle = FleetSecond(0.0, 0, 0, 0.0, [], [], 0, 1.0, [], None)
    scaler = Scaler()
    assert scaler.second(0.0, idle, Scaling()).desired == 0
    signal = scaler.second(1.0, idle._replace(arrivals_per_s=1.0, in_flight=1, waiting=1), Scaling())
    assert signal.desired == 1
    assert "no replica takes them" in signal.words


def test_what_cannot_be_told_is_said() -> None:
    scaler = Scaler()
    seen = FleetSecond(20.0, 10, 0, 20.0, [None, None], [None, None], 0, 1.9, [], None)
    for second in range(60):
        signal = scaler.second(float(second), seen, Scaling())
    assert signal.desired is None
    assert "set max_concurrency" in signal.words
    by_memory = scaler.second(60.0, seen._replace(kv_shares=[0.9, 0.9]), Scaling())
    assert by_memory.desired == 3


def test_late_first_tokens_ask_for_more_where_replicas_are_busy() -> None:
    late = FleetSecond(
        10.0, 14, 0, 10.0, [8, 8], [8, 8], 0, 1.0, [], None, first_token_s=3.0, first_token_objective_s=2.0
    )
    assert Scaler().second(0.0, late, Scaling()).desired == 3
    idle = late._replace(in_flight=2)
    assert Scaler().second(0.0, idle, Scaling()).desired is None  # more of them would be as late


def test_limits_of_the_policy_hold_and_down_takes_its_time() -> None:
    scaler, policy = Scaler(), Scaling(min_replicas=2, max_replicas=5, scale_down_after_s=30.0)
    busy = FleetSecond(1_000.0, 500, 0, 1_000.0, [8] * 70, [8] * 70, 0, 1.0, [], None)
    said = [scaler.second(float(second), busy, policy).desired for second in range(10)]
    assert said[-1] == 5
    idle = FleetSecond(0.0, 0, 0, 0.0, [8] * 70, [8] * 70, 0, 1.0, [], None)
    after = [scaler.second(10.0 + second, idle, policy).desired for second in range(120)]
    assert after[:30] == [5] * 30
    assert after[-1] == 2


def test_who_takes_over_says_no_fewer_at_once() -> None:
    scaler = Scaler()
    scaler.begin(0.0, 7)
    idle = FleetSecond(0.0, 0, 0, 0.0, [8], [8], 0, 1.0, [], None)
    assert scaler.second(1.0, idle, Scaling()).desired == 7
    assert scaler.second(200.0, idle, Scaling()).desired == 0


def test_a_batching_server_takes_longer_with_more_at_once() -> None:
    service = Service()
    for _ in range(60):
        service.add(ServiceSecond(busy=40.0, served_per_s=10.0, replicas=4))  # 10 at once, 4 s each
    by_slots, by_batches = service.capacity(20.0, 1.0), service.capacity(20.0, 2.0)
    assert by_slots is not None
    assert by_batches is not None
    assert (by_slots.service_s, by_slots.per_s) == pytest.approx((4.0, 5.0))
    assert (by_batches.service_s, by_batches.per_s) == pytest.approx((8.0, 2.5))
    assert Service().capacity(20.0, 1.0) is None


def ramp() -> Iterator[float]:
    yield from [100.0] * 60
    yield from (100.0 + 2.0 * second for second in range(60))


def test_a_trend_is_followed_and_a_jump_is_none() -> None:
    arrivals = Arrivals()
    for per_s in ramp():
        arrivals.add(per_s)
    assert 260.0 < arrivals.expected(arrivals.level(), 60.0) <= 2 * arrivals.level()
    jump = Arrivals()
    for per_s in [100.0] * 60 + [1_000.0] * 10:
        jump.add(per_s)
    assert jump.expected(jump.level(), 600.0) == jump.level() == 1_000.0


STEADY = FleetSecond(30.0, 15, 0, 30.0, [8] * 4, [8] * 4, 0, 1.0, [], None)


def test_after_a_restart_the_last_number_stands_with_its_age_until_it_can_be_told_anew() -> None:
    scaler = Scaler()
    scaler.begin(100.0, 4, 3.0)
    said = [scaler.second(100.0 + second, STEADY, Scaling()) for second in range(15)]
    assert [one.desired for one in said[:9]] == [4] * 9
    assert [one.age_s for one in said[:3]] == [3.0, 4.0, 5.0]
    assert said[0].words.startswith("4 were needed 3 s ago; cannot tell yet")
    assert (said[-1].age_s, "requests/s expected" in said[-1].words) == (0.0, True)


def test_a_number_is_kept_for_a_minute_at_most_and_none_needed_is_not_kept() -> None:
    silent = STEADY._replace(served_per_s=0.0)
    scaler = Scaler()
    scaler.begin(100.0, 4, 55.0)
    assert scaler.second(105.0, silent, Scaling()).desired == 4
    assert scaler.second(106.0, silent, Scaling()).desired is None
    asleep = Scaler()
    asleep.begin(100.0, 0)
    assert asleep.second(101.0, silent, Scaling()).desired is None


def test_that_none_is_needed_is_not_said_of_a_fleet_that_was_not_watched_yet() -> None:
    idle = FleetSecond(0.0, 0, 0, 0.0, [8], [8], 0, 1.0, [], None)
    scaler = Scaler()
    said = [scaler.second(float(second), idle, Scaling()).desired for second in range(12)]
    assert said == [None] * 9 + [0] * 3
    known = Scaler()
    known.begin(0.0, 0)
    assert known.second(1.0, idle, Scaling()).desired == 0


def test_what_was_said_before_is_told_with_all_of_its_age() -> None:
    last = ScalingSignal(
        desired=4, words="", taking=2, starting=0, arrivals_per_s=1.0, expected_per_s=1.0, age_s=20.0
    )
    said = said_before(last, 30.0, "no conductor")
    assert said is not None
    assert (said.desired, said.age_s, said.words) == (4, 50.0, "4 were needed 50 s ago; no conductor")
    assert said_before(last, 41.0, "no conductor") is None
    assert said_before(structs.replace(last, desired=0), 1.0, "") is None
    assert said_before(structs.replace(last, desired=None), 1.0, "") is None
