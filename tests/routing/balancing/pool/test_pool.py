"""Counting, eligibility, panic, slow start, ejection and probation of one pool, at given times."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as draw

from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.retry_budget import FLOOR
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import FAILURES, Outcome
from routing.balancing.attempt.tunnel import TunnelAttempt
from routing.balancing.pool.pool import Pool
from routing.contract.table import FleetSnapshot, ReplicaSpec

NOT_FAILURES = [outcome for outcome in Outcome if outcome not in FAILURES]


# --- counting ------------------------------------------------------------------------------------


def test_begin_counts_and_settle_uncounts(make_pool):
    pool = make_pool(1)
    attempt = pool.begin(3.5, 1.0)
    (replica,) = pool.replicas
    assert (replica.in_flight, replica.work, replica.picked) == (1, 3.5, 1)
    attempt.settle(Outcome.SUCCESS, 1.5)
    assert (replica.in_flight, replica.work, replica.succeeded) == (0, 0.0, 1)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_second_settle_raises_and_counts_nothing(make_pool, outcome):
    pool = make_pool(1)
    attempt = pool.begin(1.0, 1.0)
    attempt.settle(outcome, 1.1)
    with pytest.raises(RuntimeError, match="r0 was settled twice"):
        attempt.settle(Outcome.SUCCESS, 1.2)
    assert pool.replicas[0].in_flight == 0


@given(
    steps=draw.lists(
        draw.tuples(
            draw.booleans(), draw.integers(0, 50), draw.sampled_from(Outcome), draw.floats(0.001, 1e6)
        ),
        max_size=120,
    )
)
def test_after_any_interleaving_nothing_is_left_in_flight(steps):
    specs = [ReplicaSpec(uid=f"{n}", name=f"r{n}", url=f"http://10.0.0.{n + 1}:80") for n in range(3)]
    snapshot = FleetSnapshot(epoch=1, version=1, revision=1, name="f", protocol="generic", replicas=specs)
    pool, held, now = Pool(snapshot, None, Random(1)), [], 1.0
    for begins, which, outcome, work in steps:
        now += 0.05
        if begins or not held:
            attempt = pool.begin(work, now)
            assert isinstance(attempt, Attempt)
            held.append(attempt)
        else:
            held.pop(which % len(held)).settle(outcome, now)
        assert sum(replica.in_flight for replica in pool.replicas) == len(held)
    for attempt in held:
        attempt.settle(Outcome.CANCELLED, now)
    for replica in pool.replicas:
        assert (replica.in_flight, replica.work, replica.load, replica.load_work) == (0, 0.0, 0, 0.0)


def test_a_retry_goes_elsewhere_until_all_were_tried(make_pool):
    pool = make_pool(3)
    tried, attempts = (), []
    for _ in range(3):
        attempt = pool.begin(1.0, 1.0, tried)
        attempts.append(attempt)
        tried += (attempt.replica,)
    assert len(set(tried)) == 3
    refusal = pool.begin(1.0, 1.0, tried)
    assert isinstance(refusal, Rejection)
    assert refusal.code == "no_other_replica"
    for attempt in attempts:
        attempt.settle(Outcome.FAILED, 1.1)


def test_latency_is_counted_for_successes_alone(make_pool):
    pool = make_pool(1)
    for outcome in Outcome:
        attempt = pool.begin(1.0, 1.0)
        attempt.first_byte(1.1)
        attempt.settle(outcome, 1.25)
    report = pool.report(2.0)
    (replica,) = report.replicas
    assert sum(replica.latency.values()) == replica.succeeded == 1
    assert sum(replica.first_byte.values()) == len(Outcome)
    assert (replica.failed, replica.rejected, replica.cancelled, replica.client_errors) == (
        len(FAILURES),
        1,
        1,
        1,
    )
    assert replica.picked == len(Outcome)
    assert report.applied == "1:1"


def test_what_clients_saw_is_reported(make_pool):
    pool = make_pool(1)
    pool.request_seen()
    pool.observe(0.25)
    report = pool.report(1.0)
    assert report.requests == 1
    assert sum(report.latency.values()) == 1


# --- who is eligible -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"admin_state": "draining"}, "draining, set by an operator"),
        ({"admin_state": "maintenance"}, "maintenance, set by an operator"),
        ({"health": "checking", "has_passed": False}, "checking: no probe has passed yet"),
        ({"health": "unready"}, "unready: its readiness probe fails"),
        ({"health": "down"}, "down: its probes fail"),
        ({"weight": 0.0}, "weight 0"),
    ],
)
def test_what_keeps_a_replica_out_is_said(make_pool, send, changes, words):
    pool = make_pool([changes, {}])
    assert {send(pool, 1.0 + i * 0.01) for i in range(50)} == {"r1"}
    out, fine = pool.explain(2.0)
    assert (out.eligible, out.asked, out.reasons) == (False, False, [words])
    assert (fine.eligible, fine.asked, fine.reasons) == (True, True, [])


def test_every_reason_is_given_not_only_the_first(make_pool):
    pool = make_pool([{"admin_state": "draining", "health": "down"}, {}, {}])
    assert len(pool.explain(1.0)[0].reasons) == 2


def test_nobody_reachable_is_refused_at_once_in_words(make_pool):
    pool = make_pool([{"health": "checking", "has_passed": False}, {"admin_state": "draining"}])
    refusal = pool.begin(1.0, 1.0)
    assert isinstance(refusal, Rejection)
    assert refusal.status == 503
    words = "2 replicas of fleet digits: 1 checking, 1 draining; the model is loading, and its startup time"
    assert refusal.message.startswith(words)
    assert refusal.retry_after_s


def test_an_empty_fleet_says_so(make_pool):
    assert make_pool(0).begin(1.0, 1.0).message == "fleet digits has no replicas"


def test_panic_ignores_health_of_those_that_passed_once(make_pool, send):
    pool = make_pool(
        [
            {},
            {"health": "down"},
            {"health": "unready"},
            {"health": "checking", "has_passed": False},
            {"health": "checking"},
            {"health": "down", "admin_state": "maintenance"},
        ]
    )
    assert {send(pool, 1.0 + i * 0.01) for i in range(100)} == {"r0", "r1", "r2"}
    rows = pool.explain(3.0)
    assert [row.eligible for row in rows] == [True, *[False] * 5]
    assert [row.asked for row in rows] == [True, True, True, False, False, False]
    despite = (
        "still gets requests: panic mode, fewer than half of the replicas that ever passed a probe are ready"
    )
    assert rows[1].reasons == ["down: its probes fail", despite]
    assert rows[3].reasons == ["checking: no probe has passed yet"]


def test_half_of_a_pool_is_no_panic(make_pool, send):
    pool = make_pool([{}, {}, {"health": "down"}, {"health": "down"}])
    assert {send(pool, 1.0 + i * 0.01) for i in range(100)} == {"r0", "r1"}


# --- slow start ----------------------------------------------------------------------------------


def test_a_replica_that_becomes_ready_is_given_a_growing_share(make_pool, make_snapshot, send):
    pool = make_pool([{}, {"health": "checking", "has_passed": False}], strategy="round_robin")
    send(pool, 99.0)
    pool.replace(make_snapshot(2, version=2, strategy="round_robin"))
    shares = []
    for begin in (100.0, 115.0, 131.0):
        pool.refresh(begin)
        picks = [send(pool, begin) for _ in range(1000)]
        shares.append(picks.count("r1") / 1000)
    # Weights 0.1, 0.325 and 1 beside a weight of 1.
    assert shares == pytest.approx([0.1 / 1.1, 0.325 / 1.325, 0.5], abs=0.01)


def test_slow_start_limits_slots_too(make_pool, make_snapshot):
    pool = make_pool([{}], max_concurrency=20)
    pool.refresh(1.0)
    pool.replace(make_snapshot(2, version=2, max_concurrency=20))
    pool.refresh(2.0)
    assert [replica.concurrency for replica in pool.replicas] == [20, 2]
    pool.refresh(40.0)
    assert [replica.concurrency for replica in pool.replicas] == [20, 20]


def test_slow_start_outlasts_what_is_learned_meanwhile(make_pool, make_snapshot):
    pool = make_pool(1)
    pool.refresh(1.0)
    pool.replace(make_snapshot(2, version=2))
    pool.refresh(2.0)
    held = [pool.begin(1.0, 2.0) for _ in range(20)]
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.05)
    pool.refresh(2.06)
    old, new = pool.replicas
    assert old.cost == pytest.approx(old.seconds_per_work)
    assert new.picked > 0
    assert new.cost == pytest.approx(new.seconds_per_work / new.ramp)
    assert new.ramp < 0.11


def test_the_first_table_is_not_ramped(make_pool):
    pool = make_pool(3)
    pool.refresh(1.0)
    assert [replica.ramp for replica in pool.replicas] == [1.0, 1.0, 1.0]


# --- ejection and probation ----------------------------------------------------------------------


@pytest.mark.parametrize("outcome", sorted(FAILURES, key=str))
def test_five_failures_in_a_row_eject(make_pool, send, fail, outcome, caplog):
    caplog.set_level("INFO", logger="routing.balancing.outlier.outlier_detector")
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 4, 1.0, outcome)
    assert pool.replicas[0].ejection.until == 0
    assert caplog.messages == []
    fail(pool, "r0", 1, 1.0, outcome)
    assert "r0" not in {send(pool, 1.5) for _ in range(50)}
    out = pool.explain(1.5)[0]
    assert out.reasons[0].startswith("ejected for another ")
    assert "5 failures in a row, the last one" in out.reasons[0]
    [line] = caplog.messages
    assert line.startswith("replica r0 of fleet digits is ejected for ")
    assert " s: 5 failures in a row, the last one " in line
    assert pool.report(1.5).replicas[0].ejections == 1


def test_a_success_breaks_the_row(make_pool, send, fail):
    pool = make_pool(3, strategy="round_robin")
    for _ in range(5):
        fail(pool, "r0", 4, 1.0)
        # Two rounds, so that it has its turn at least once.
        for _ in range(6):
            send(pool, 1.0)
    assert pool.replicas[0].ejection.count == 0


@pytest.mark.parametrize(
    "outcome",
    [o for o in NOT_FAILURES if o not in (Outcome.SUCCESS, Outcome.WITHOUT_RESULT, Outcome.BEATEN)],
)
def test_load_cancels_and_client_errors_never_eject(make_pool, fail, outcome):
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 100, 1.0, outcome)
    assert pool.replicas[0].ejection.count == 0


def test_probation_lets_exactly_one_request_decide(make_pool, send, fail, caplog):
    caplog.set_level("INFO", logger="routing.balancing.outlier.outlier_detector")
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 1.0)
    ends = pool.replicas[0].ejection.until
    assert 1.0 + 4.0 <= ends <= 1.0 + 6.0
    probe = pool.begin(1.0, ends)
    assert probe.replica.name == "r0"
    assert "r0" not in {send(pool, ends + 0.1) for _ in range(50)}
    assert "until its probe request succeeds" in pool.explain(ends + 0.1)[0].reasons[0]
    probe.settle(Outcome.SUCCESS, ends + 0.2)
    assert "r0" in {send(pool, ends + 0.3) for _ in range(3)}
    assert pool.explain(ends + 0.3)[0].eligible
    assert caplog.messages[1:] == ["replica r0 of fleet digits is no longer ejected: it has answered"]


def test_a_failed_probe_doubles_and_the_cap_holds(make_pool, fail):
    """Those within a back-off leave it as it is."""
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 1.0)
    state = pool.replicas[0].ejection
    lasted = [state.lasted_s]
    while len(lasted) < 9:
        before = state.back_off_until
        probe = pool.begin(1.0, state.until)
        assert probe.replica.name == "r0"
        probe.settle(Outcome.FAILED, state.until)
        if state.back_off_until != before:
            lasted.append(state.lasted_s)
    for n, seconds in enumerate(lasted):
        assert min(5 * 2**n * 0.8, 300 * 0.8) <= seconds <= min(5 * 2**n * 1.2, 300)
    assert len(set(lasted)) > 6


def test_trouble_long_after_the_last_begins_at_the_base_again(make_pool, fail):
    pool = make_pool(3, strategy="round_robin")
    state, begin = pool.replicas[0].ejection, 1.0
    fail(pool, "r0", 5, begin)
    pool.begin(1.0, state.until).settle(Outcome.SUCCESS, state.until)
    fail(pool, "r0", 5, begin + 1000)
    assert state.lasted_s <= 6.0
    pool.begin(1.0, state.until).settle(Outcome.SUCCESS, state.until)
    fail(pool, "r0", 5, state.returned_at + 1)
    assert state.lasted_s >= 8.0


def test_a_cancelled_probe_decides_nothing(make_pool, fail):
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 1.0)
    ends = pool.replicas[0].ejection.until
    pool.begin(1.0, ends).settle(Outcome.CANCELLED, ends + 0.1)
    again = pool.begin(1.0, ends + 0.2)
    assert again.replica.name == "r0"
    again.settle(Outcome.CLIENT_ERROR, ends + 0.3)
    assert pool.explain(ends + 0.4)[0].eligible


def test_at_most_half_of_a_pool_is_out(make_pool, send):
    pool = make_pool(5, strategy="round_robin")
    for i in range(200):
        send(pool, 1.0 + i * 0.001, Outcome.FAILED)
    assert sum(1 for replica in pool.replicas if replica.ejection.until) == 2


def test_a_pool_of_one_never_loses_it(make_pool, send):
    pool = make_pool(1)
    for i in range(50):
        assert send(pool, 1.0 + i * 0.1, Outcome.REFUSED) == "r0"


def test_an_ejected_replica_is_better_than_none(make_pool, make_snapshot, send, fail):
    pool = make_pool(3, strategy="round_robin")
    fail(pool, "r0", 5, 1.0)
    pool.replace(make_snapshot([{}, {"admin_state": "draining"}, {"admin_state": "draining"}], version=2))
    row = pool.explain(1.4)[0]
    assert (row.eligible, row.asked) == (False, True)
    assert row.reasons[0].startswith("ejected for another ")
    assert row.reasons[1] == "still gets requests: all other replicas are out as well"
    assert send(pool, 1.5) == "r0"
    assert pool.explain(1.6)[0].eligible


def test_requests_that_began_before_the_ejection_do_not_lift_it(make_pool, fail):
    pool = make_pool(2, strategy="round_robin")
    early = [pool.begin(1.0, 0.5) for _ in range(2)]
    fail(pool, "r0", 5, 1.0)
    for attempt in early:
        attempt.settle(Outcome.SUCCESS, 1.2)
    assert pool.replicas[0].ejection.until


def test_silence_ejects_and_a_byte_lets_back(make_pool, send):
    pool = make_pool(2, timeouts={"stall_s": 3.0})
    stuck = pool.begin(1.0, 1.0)
    name = stuck.replica.name
    stuck.heard(2.0)
    assert len({send(pool, 4.9) for _ in range(20)}) >= 1
    assert stuck.replica.ejection.until == 0
    other = {send(pool, 5.2) for _ in range(20)}
    assert name not in other
    assert "stalled: nothing heard for 3 s with 1 in flight" in stuck.replica.ejection.reason
    stuck.heard(5.5)
    pool.refresh(5.6)
    assert all(replica.eligible for replica in pool.explain(5.7))
    stuck.settle(Outcome.SUCCESS, 5.8)


def test_an_idle_replica_does_not_stall(make_pool, send):
    pool = make_pool(2, timeouts={"stall_s": 3.0})
    send(pool, 1.0)
    attempt = pool.begin(1.0, 100.0)
    pool.refresh(101.0)
    assert all(replica.ejection.until == 0 for replica in pool.replicas)
    attempt.settle(Outcome.SUCCESS, 101.0)


def test_a_silent_tunnel_says_nothing_of_the_requests_after_it(make_pool):
    """Their silence is counted from their own beginning."""
    pool = make_pool(2, timeouts={"stall_s": 3.0})
    tunnels = [TunnelAttempt(attempt, 1.0) for attempt in [pool.begin(1.0, 1.0) for _ in range(2)]]
    assert [replica.stall_exempt for replica in pool.replicas] == [1, 1]
    requests = [pool.begin(1.0, 100.0) for _ in range(2)]
    pool.refresh(102.9)
    assert all(replica.ejection.until == 0 for replica in pool.replicas)
    pool.refresh(103.1)
    assert sum(replica.ejection.until > 0 for replica in pool.replicas) == 1
    for attempt in (*requests, *tunnels):
        attempt.settle(Outcome.CANCELLED, 104.0)
    assert [replica.stall_exempt for replica in pool.replicas] == [0, 0]


def test_requests_that_are_given_up_early_are_no_stall(make_pool):
    """None of them has waited long enough, though the replica is silent while there is always one."""
    pool = make_pool(2, timeouts={"stall_s": 3.0}, strategy="round_robin")
    before = []
    for now in range(1, 10):
        present = [pool.begin(1.0, float(now)) for _ in range(2)]
        for attempt in present:
            attempt.mark_short_deadline()
        pool.refresh(now + 0.5)
        for attempt in before:
            attempt.settle(Outcome.CANCELLED, now + 0.6)
        before = present
    assert all(replica.ejection.until == 0 for replica in pool.replicas)
    patient = [pool.begin(1.0, 9.8) for _ in range(2)]
    pool.refresh(12.7)
    assert all(replica.ejection.until == 0 for replica in pool.replicas)
    pool.refresh(12.9)
    assert sum(replica.ejection.until > 0 for replica in pool.replicas) == 1
    for attempt in (*before, *patient):
        attempt.settle(Outcome.CANCELLED, 13.0)
    assert [(replica.stall_exempt, replica.in_flight) for replica in pool.replicas] == [(0, 0), (0, 0)]


def test_slow_answers_are_no_stall_where_the_fleet_is_slow(make_pool):
    pool = make_pool(2, timeouts={"stall_s": 3.0})
    for i in range(20):
        attempt = pool.begin(1.0, 1.0 + i)
        attempt.settle(Outcome.SUCCESS, 3.5 + i)
    attempt = pool.begin(1.0, 30.0)
    pool.refresh(36.0)
    assert attempt.replica.ejection.until == 0
    pool.refresh(38.0)
    assert attempt.replica.ejection.until
    attempt.settle(Outcome.TIMEOUT, 38.0)


def test_failing_often_but_never_in_a_row_ejects(make_pool):
    pool = make_pool(3, strategy="round_robin")
    bad, seen = pool.replicas[0], 0
    for i in range(120):
        attempt = pool.begin(1.0, 20.0 + i * 0.05)
        mine = attempt.replica is bad
        seen += mine
        attempt.settle(Outcome.FAILED if mine and seen % 2 else Outcome.SUCCESS, 20.0 + i * 0.05)
    assert "while other replicas did well" in bad.ejection.reason


def test_failing_often_by_chance_ejects_nobody(make_pool, send):
    """A seventh of all requests, at all replicas alike."""
    pool, rng = make_pool(16, strategy="round_robin", ejection={"consecutive_failures": 20}), Random(4)
    for i in range(6000):
        outcome = Outcome.FAILED if rng.random() < 1 / 7 else Outcome.SUCCESS
        send(pool, 1.0 + i * 0.02, outcome)
    assert [replica.ejection.count for replica in pool.replicas] == [0] * 16


def test_requests_that_fail_everywhere_eject_nobody_for_it(make_pool):
    pool = make_pool(3, strategy="round_robin")
    for i in range(300):
        attempt = pool.begin(1.0, 20.0 + i * 0.02)
        attempt.settle(Outcome.FAILED if i % 5 < 2 else Outcome.SUCCESS, 20.0 + i * 0.02)
    assert all(replica.ejection.count == 0 for replica in pool.replicas)


# --- retry budget --------------------------------------------------------------------------------


def test_retries_are_a_fifth_of_requests_and_two_a_second(make_pool):
    pool = make_pool(2)
    for _ in range(100):
        pool.request_seen()
    granted = sum(pool.retry_allowed() for _ in range(100))
    assert granted == 20 + FLOOR


def test_the_retry_budget_forgets(make_pool):
    pool = make_pool(2)
    pool.refresh(1.0)
    while pool.retry_allowed():
        pass
    pool.refresh(11.5)
    assert not pool.retry_allowed()
    pool.refresh(22.0)
    assert pool.retry_allowed()


def test_no_percentage_means_no_retries_of_what_was_sent(make_pool):
    pool = make_pool(2, retries={"budget_percent": 0.0})
    assert not pool.retry_allowed()
    assert pool.retry_allowed(never_sent=True)


# --- where answers are rare -----------------------------------------------------------------------


def test_slow_answers_are_remembered_where_they_are_rare(make_pool):
    """One in half a minute, of twenty seconds each: a failure counts as two of them."""
    pool = make_pool(2)
    for i in range(6):
        pool.begin(1.0, 1.0 + 30 * i).settle(Outcome.SUCCESS, 21.0 + 30 * i)
        pool.refresh(22.0 + 30 * i)
        pool.refresh(30.0 + 30 * i)
    assert pool.speed.p99_s == pytest.approx(20.0, rel=0.05)
    for now in (900.0, 1000.0, 1700.0):
        pool.refresh(now)
    assert pool.speed.p99_s == pytest.approx(20.0, rel=0.05)


def test_slow_answers_are_forgotten_once_there_are_enough_of_others(make_pool, send):
    pool = make_pool(2)
    for i in range(10):
        send(pool, 1.0 + i, took=20.0)
    for i in range(400):
        send(pool, 30.0 + 0.1 * i, took=0.1)
    assert pool.speed.p99_s < 0.2


def test_failing_often_ejects_where_requests_are_rare(make_pool):
    """One request in five seconds at each; two of three fail at r0, never five in a row."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0)
    seen = 0
    for i in range(150):
        attempt = pool.begin(1.0, 20.0 + i * 5 / 3)
        mine = attempt.replica.name == "r0"
        seen += mine
        attempt.settle(Outcome.FAILED if mine and seen % 3 else Outcome.SUCCESS, 20.1 + i * 5 / 3)
    assert pool.replicas[0].ejection.count >= 1


def test_a_row_soon_after_the_return_doubles_also_where_requests_are_rare(make_pool):
    """Five failures take 50 s."""
    pool = make_pool(3, strategy="round_robin")
    bad, now, lasted = pool.replicas[0], 1.0, []
    pool._pick = lambda found, *_: found[0]
    for _ in range(3):
        while not bad.ejection.until:
            pool.begin(1.0, now).settle(Outcome.FAILED, now)
            now += 10.0
        lasted.append(bad.ejection.lasted_s)
        now = bad.ejection.until
        pool.begin(1.0, now).settle(Outcome.SUCCESS, now)
    assert lasted[1] > 1.3 * lasted[0]
    assert lasted[2] > 1.3 * lasted[1]


def test_slow_start_takes_three_answers_where_they_are_slow(make_pool, make_snapshot):
    pool = make_pool(1)
    for i in range(400):
        pool.begin(1.0, 1.0 + i).settle(Outcome.SUCCESS, 41.0 + i)
    pool.replace(make_snapshot(2, version=2))
    pool.refresh(500.0)
    pool.refresh(540.0)
    assert 0.1 < pool.replicas[1].ramp < 0.5
    pool.refresh(625.0)
    assert pool.replicas[1].ramp == 1.0
