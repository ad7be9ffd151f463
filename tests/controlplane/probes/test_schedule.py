"""Due times and claims, in a real Redis."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
import redis
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from controlplane.probes import keys, last_results, schedule
from controlplane.probes.schedule import QUEUE_LEASE_MS, Claim, ResultRecord, Timing

NEW = Timing(period_s=2.0, never_passed=True, longest_s=1.0)
KNOWN = Timing(period_s=60.0, never_passed=False, longest_s=1.0)
RNG = Random(1)


def now_ms(client: "redis.Redis") -> int:
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds // 1000


def due_in_ms(client: "redis.Redis") -> dict[str, float]:
    now = now_ms(client)
    stored = client.zrange(keys.DUE, 0, -1, withscores=True)
    return {uid.decode(): score - now for uid, score in stored}


def let_leases_run_out(client: "redis.Redis") -> None:
    """As if their time had passed, but for the millisecond that tells one lease from the next."""
    began = now_ms(client)
    while now_ms(client) == began:
        pass
    for uid in client.zrange(keys.DUE, 0, -1):
        client.zincrby(keys.DUE, -60_000, uid)


def uids(claims: Sequence[Claim]) -> set[str]:
    return {claim.uid for claim in claims}


def test_a_new_replica_is_due_at_once(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    assert [(claim.uid, claim.wait_ms) for claim in schedule.claim(redis_client)] == [("a", 0)]


def test_after_a_flush_known_replicas_are_spread_over_their_period(redis_client: "redis.Redis") -> None:
    timings = {f"u{number}": KNOWN for number in range(200)}
    schedule.reconcile(redis_client, timings, RNG)
    due = sorted(due_in_ms(redis_client).values())
    assert len(due) == 200
    assert due[0] < 5_000
    assert due[-1] > 55_000
    assert 25_000 < due[100] < 35_000


def test_deleted_replicas_vanish_with_all_that_was_kept_of_them(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW, "b": NEW}, RNG)
    for uid in ("a", "b"):
        redis_client.hset(keys.COUNTERS, uid, "[1,0]")
        redis_client.hset(keys.LAST, uid, "0 {}")
    schedule.reconcile(redis_client, {"b": NEW}, RNG)
    assert redis_client.zrange(keys.DUE, 0, -1) == [b"b"]
    assert redis_client.hkeys(keys.COUNTERS) == redis_client.hkeys(keys.LAST) == [b"b"]


def test_a_shortened_period_brings_the_next_probe_nearer(redis_client: "redis.Redis") -> None:
    redis_client.zadd(keys.DUE, {"a": now_ms(redis_client) + 3_600_000})
    schedule.reconcile(redis_client, {"a": KNOWN}, RNG)
    assert due_in_ms(redis_client)["a"] <= 72_000


def test_reconciling_moves_nothing_that_is_as_it_should_be(redis_client: "redis.Redis") -> None:
    timings = {f"u{number}": KNOWN for number in range(20)}
    schedule.reconcile(redis_client, timings, RNG)
    before = redis_client.zrange(keys.DUE, 0, -1, withscores=True)
    schedule.reconcile(redis_client, timings, RNG)
    assert redis_client.zrange(keys.DUE, 0, -1, withscores=True) == before


def test_what_is_due_before_the_next_tick_is_claimed_and_nothing_else(redis_client: "redis.Redis") -> None:
    now = now_ms(redis_client)
    redis_client.zadd(keys.DUE, {"past": now - 5000, "soon": now + 700, "later": now + 60_000})
    claims = {claim.uid: claim.wait_ms for claim in schedule.claim(redis_client)}
    assert claims.keys() == {"past", "soon"}
    assert claims["past"] == 0
    assert 0 < claims["soon"] <= 700


def test_ticks_at_the_same_time_never_get_the_same_replica(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {f"u{number}": NEW for number in range(500)}, RNG)
    with ThreadPoolExecutor(8) as threads:
        claimed = [
            claim.uid
            for claims in threads.map(lambda _: schedule.claim(redis_client), range(16))
            for claim in claims
        ]
    assert len(claimed) == len(set(claimed)) == 500


def test_a_claim_nobody_settles_is_due_again_when_its_lease_has_run_out(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    assert uids(schedule.claim(redis_client)) == {"a"}
    assert schedule.claim(redis_client) == []
    assert 0 < due_in_ms(redis_client)["a"] <= QUEUE_LEASE_MS
    let_leases_run_out(redis_client)
    assert uids(schedule.claim(redis_client)) == {"a"}


def test_a_batch_that_comes_too_late_finds_its_claims_gone(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    old = schedule.claim(redis_client)
    let_leases_run_out(redis_client)
    new = schedule.claim(redis_client)
    assert schedule.begin(redis_client, old, {"a": 1.0}) == {}
    assert schedule.begin(redis_client, new, {"a": 1.0}).keys() == {"a"}


def test_a_begun_batch_holds_its_replicas_for_as_long_as_probing_may_take(
    redis_client: "redis.Redis",
) -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    claims = schedule.claim(redis_client)
    schedule.begin(redis_client, claims, {"a": 30.0})
    assert 34_000 < due_in_ms(redis_client)["a"] <= 36_000
    assert schedule.begin(redis_client, claims, {"a": 30.0}) == {}, "a message delivered twice begins once"


def test_a_replica_deleted_meanwhile_is_left_out_of_the_batch(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW, "b": NEW}, RNG)
    claims = schedule.claim(redis_client)
    assert schedule.begin(redis_client, claims, {"b": 1.0}).keys() == {"b"}


def record_result(client: "redis.Redis", lease: int) -> bool:
    result = last_results.encode(latency_s=0.0312, passed=True, answer="200 OK")
    return bool(schedule.record_results(client, [ResultRecord("a", lease, 2.0, "[0,1]", result)]))


def test_a_result_is_recorded_with_the_next_due_time(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    active = schedule.begin(redis_client, schedule.claim(redis_client), {"a": 1.0})["a"]
    assert record_result(redis_client, active.lease)
    assert 1_000 < due_in_ms(redis_client)["a"] <= 2_000
    assert redis_client.hget(keys.COUNTERS, "a") == b"[0,1]"
    probe = last_results.read_of(redis_client, ["a"])["a"]
    assert (probe.latency_ms, probe.passed, probe.words) == (31.2, True, "200 OK in 31 ms")
    assert 0 <= probe.age_s < 5


def test_whoever_lost_the_claim_changes_nothing(redis_client: "redis.Redis") -> None:
    schedule.reconcile(redis_client, {"a": NEW}, RNG)
    active = schedule.begin(redis_client, schedule.claim(redis_client), {"a": 1.0})["a"]
    redis_client.flushall()
    assert not record_result(redis_client, active.lease)
    assert redis_client.keys("*") == []


def test_last_results_of_another_version_are_left_out(redis_client: "redis.Redis") -> None:
    redis_client.hset(
        keys.LAST, mapping={"a": "0 " + last_results.encode(latency_s=1, passed=False, answer="no")}
    )
    redis_client.hset(keys.LAST, "b", "from another version")
    results = last_results.read_of(redis_client, ["a", "b"])
    assert {uid: result.answer for uid, result in results.items()} == {"a": "no"}


@given(st.floats(0.5, 600), st.booleans(), st.floats(0, 20), st.integers(0, 2**32))
def test_jitter_stays_within_a_fifth_of_the_period(
    period_s: float, never_passed: bool, took_s: float, seed: int
) -> None:
    timing = Timing(period_s, never_passed, 5.0)
    due_s = schedule.next_due_s(timing, took_s, Random(seed))
    period = min(period_s, schedule.STARTUP_PERIOD_S) if never_passed else period_s
    assert due_s == pytest.approx(max(due_s, schedule.FASTEST_S))
    if due_s > schedule.FASTEST_S:
        assert 0.8 * period <= due_s + took_s + 1e-9
        assert due_s + took_s <= 1.2 * period + 1e-9
