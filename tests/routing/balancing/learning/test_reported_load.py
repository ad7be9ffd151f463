"""Load that replicas report: others' requests count beside our own, by the age of what is known of them."""

from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning.reported_load import (
    GONE_PERIODS,
    LAG_S,
    Correction,
    ReportContext,
    latest,
    record,
)
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.load_report import ReportedLoad
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import SharedCounters

USUAL = ReportContext(period_s=2.0, mean_work=3.0)


def correct(replicas, now, around):
    """As the slow timer of a small pool does."""
    correction = Correction(around)
    correction.look(replicas, now)
    correction.apply()


def replica_of(make_pool, **changes) -> Replica:
    return make_pool(1, **changes).replicas[0]


def watch(replica: Replica, since: float, until: float, around: ReportContext = USUAL) -> None:
    """The slow timer beats."""
    for tenth in range(round(since * 10), round(until * 10) + 1):
        correct((replica,), tenth / 10, around)


def reports(replica: Replica, running: int, at: float, age_s: float = 0.0, waiting: int = 0) -> None:
    record(replica, ReportedLoad(running=running, waiting=waiting, age_s=age_s), at)


def first_report(replica: Replica, at: float = 0.0) -> None:
    """From the first on, own requests are remembered that the second is compared with."""
    reports(replica, 0, at)


def test_what_a_replica_has_beyond_our_own_is_added(make_pool):
    pool = make_pool(1)
    (replica,) = pool.replicas
    first_report(replica)
    held = [pool.begin(1.0, 0.0) for _ in range(3)]
    watch(replica, 0.1, 2.0)
    reports(replica, running=8, waiting=2, at=2.0, age_s=0.3)
    watch(replica, 2.0, 2.1)
    assert (replica.external_load, replica.external_load_work) == (7, 21.0)
    assert (replica.load, replica.load_work) == (10, 24.0)
    # Own requests count at once, both ways.
    held.append(pool.begin(1.0, 2.1))
    assert replica.load == 11
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.2)
    assert (replica.in_flight, replica.load, replica.load_work) == (0, 7, 7 * pool.speed.mean_work)


def test_the_first_report_only_begins_the_comparison(make_pool):
    replica = replica_of(make_pool)
    reports(replica, 9, at=5.0, age_s=2.0)
    watch(replica, 5.0, 6.0)
    assert replica.external_load == 0
    reports(replica, 9, at=7.0, age_s=0.5)
    watch(replica, 7.0, 7.1)
    assert replica.external_load == 9


@pytest.mark.parametrize("said", [0, 2, 5])
def test_a_report_below_our_own_takes_nothing_away(make_pool, said):
    pool = make_pool(1)
    (replica,) = pool.replicas
    first_report(replica)
    for _ in range(5):
        pool.begin(1.0, 0.0)
    watch(replica, 0.1, 2.0)
    reports(replica, said, at=2.0)
    watch(replica, 2.0, 3.0)
    assert (replica.external_load, replica.load) == (0, 5)


def test_others_fade_with_the_age_of_the_report_and_are_gone_after_a_few_periods(make_pool):
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 2.0)
    reports(replica, 12, at=2.0)
    seen = []
    for second in range(2, 15):
        watch(replica, second, second + 1)
        seen.append(replica.external_load)
    assert seen[0] == seen[1] == 12
    assert seen == sorted(seen, reverse=True)
    assert 0 < seen[6] < 12
    assert seen[round(GONE_PERIODS * 2) - 1 :] == [0] * (len(seen) - round(GONE_PERIODS * 2) + 1)


def test_what_counts_is_the_mean_of_readings_and_not_the_last(make_pool):
    """Else all proxies that hear the same report would move at the same time."""
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 2.0)
    for turn in range(20):
        at = 2.0 + 2 * turn
        reports(replica, (2, 14)[turn % 2], at)
        watch(replica, at, at + 1.9)
        if turn > 5:
            assert 6 <= replica.external_load <= 10, turn


def test_a_change_of_others_load_is_taken_over_within_some_reports(make_pool):
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 2.0)
    for turn in range(20):
        at = 2.0 + 2 * turn
        reports(replica, 10 if turn < 10 else 0, at)
        watch(replica, at, at + 1.9)
        assert turn < 10 or replica.external_load < 10
    assert replica.external_load <= 1


def test_a_fleet_whose_load_is_all_its_own_is_left_alone(make_pool):
    """Its gauges lag by up to LAG_S while requests come and go."""
    rng, pool = Random(4), make_pool(1)
    (replica,) = pool.replicas
    first_report(replica)
    held, past, wrong, seen = [], [], 0, 0
    for tenth in range(1, 1200):
        now = tenth / 10
        for attempt in [attempt for attempt in held if rng.random() < 0.1]:
            held.remove(attempt)
            attempt.settle(Outcome.SUCCESS, now)
        held += [pool.begin(1.0, now) for _ in range(rng.choice((0, 1, 1, 2)))]
        past.append(len(held))
        if tenth % 20 == 0:
            lag = rng.randrange(round(LAG_S * 10))
            reports(replica, past[-1 - lag], now)
        correct((replica,), now, ReportContext(2.0, 1.0))
        assert replica.load == len(held) + replica.external_load
        if now > 20:
            wrong, seen = wrong + replica.external_load, seen + len(held)
    assert wrong <= 0.02 * seen


def test_an_older_report_or_one_without_figures_changes_nothing(make_pool):
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 3.0)
    reports(replica, 6, at=3.0)
    reports(replica, 99, at=3.1, age_s=1.0)
    record(replica, ReportedLoad(problem="/metrics: 404 Not Found"), 3.2)
    watch(replica, 3.2, 3.5)
    assert replica.external_load == 6
    found = latest(replica, 4.0)
    assert found is not None
    assert (found.running, found.age_s) == (6, 1.0)


def test_a_report_that_tells_only_who_waits_takes_back_nothing(make_pool):
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 2.0)
    reports(replica, 9, at=2.0)
    watch(replica, 2.0, 2.5)
    record(replica, ReportedLoad(waiting=1), 2.5)
    watch(replica, 2.5, 2.6)
    assert replica.external_load == 9


def test_strategies_see_it_and_go_elsewhere(make_pool, make_snapshot):
    pool = make_pool(2, strategy="least_connections")
    a, b = pool.replicas
    for replica in (a, b):
        first_report(replica)
    for tenth in range(1, 21):
        pool.refresh(tenth / 10)
    reports(a, 6, at=2.0)
    pool.refresh(2.1)
    names = [pool.begin(1.0, 2.1).replica.name for _ in range(6)]
    assert names == [b.name] * 6


def test_places_are_not_taken_by_others_requests(make_pool):
    pool = make_pool(1, max_concurrency=4)
    (replica,) = pool.replicas
    first_report(replica)
    for tenth in range(1, 21):
        pool.refresh(tenth / 10)
    reports(replica, 4, at=2.0)
    pool.refresh(2.1)
    assert replica.external_load == 4
    assert pool.has_other_than((), 2.1)
    sent = [pool.begin(1.0, 2.1) for _ in range(5)]
    assert [getattr(one, "status", None) for one in sent[:4]] == [None] * 4
    assert sent[4].max_wait_s
    assert pool.admission.size


@pytest.mark.parametrize(("running", "external_load"), [(7, 0), (9, 0), (16, 7)])
def test_as_much_as_ours_is_other_proxies(make_snapshot, running, external_load):
    pool = Pool(make_snapshot(1), None, Random(1), QuotaShare(0, 3))
    (replica,) = pool.replicas
    first_report(replica)
    for _ in range(3):
        pool.begin(1.0, 0.0)
    for tenth in range(1, 21):
        pool.refresh(tenth / 10)
    reports(replica, running, at=2.0)
    pool.refresh(2.1)
    assert replica.external_load == external_load


def test_workers_of_a_host_are_not_others(make_snapshot):
    counts = SharedCounters.create(2, 4)
    one, two = (
        Pool(make_snapshot(1), SharedCounters.attach(counts.fd, index), Random(1)) for index in (0, 1)
    )
    for pool in (one, two):
        pool.refresh(0.0)
        first_report(pool.replicas[0])
    for _ in range(3):
        two.begin(1.0, 0.0)
    one.begin(1.0, 0.05)
    for tenth in range(1, 21):
        one.refresh(tenth / 10)
        two.refresh(tenth / 10)
    for pool in (one, two):
        reports(pool.replicas[0], 9, at=2.0)
        pool.refresh(2.1)
        assert (pool.replicas[0].external_load, pool.replicas[0].load) == (5, 9)
        assert pool.replicas[0].load_work == 4 + 5 * pool.speed.mean_work


def test_picks_do_not_go_by_the_kv_memory_in_use(make_pool):
    pool = make_pool(2)
    a, b = pool.replicas
    record(a, ReportedLoad(kv_share=1.0), 1.0)
    pool.refresh(1.1)
    assert (a.cost, a.share, a.external_load) == (b.cost, b.share, 0)


def test_nothing_is_kept_of_replicas_that_report_nothing(make_pool):
    pool = make_pool(1)
    pool.begin(1.0, 1.0)
    pool.refresh(2.0)
    assert pool.replicas[0].load_reports.history is None


def test_what_is_remembered_is_bounded(make_pool):
    replica = replica_of(make_pool)
    first_report(replica)
    watch(replica, 0.1, 100.0)
    assert replica.load_reports.history is not None
    assert len(replica.load_reports.history.own) < 200


# --- one that is wrong ----------------------------------------------------------------------------


def lie(pool: Pool, liar: Replica, running: int = 1_000_000) -> None:
    for replica in pool.replicas:
        first_report(replica)
    for tenth in range(1, 21):
        pool.refresh(tenth / 10)
    reports(liar, running, at=2.0)
    pool.refresh(2.1)


def test_one_wrong_report_counts_at_most_as_a_few_times_what_is_usual(make_pool):
    pool = make_pool(4)
    held = [pool.begin(1.0, 0.0) for _ in range(40)]
    lie(pool, pool.replicas[0])
    assert held
    assert pool.replicas[0].external_load == 4 * max(replica.in_flight for replica in pool.replicas)
    idle = make_pool(4)
    lie(idle, idle.replicas[0])
    assert idle.replicas[0].external_load == 16


def test_where_places_are_known_as_a_few_times_those(make_pool):
    pool = make_pool(4, max_concurrency=8, slow_start_s=0)
    lie(pool, pool.replicas[0])
    assert pool.replicas[0].external_load == 32


def test_what_others_have_at_most_replicas_is_believed(make_pool):
    pool = make_pool(4)
    for replica in pool.replicas:
        first_report(replica)
    for tenth in range(1, 21):
        pool.refresh(tenth / 10)
    for replica, running in zip(pool.replicas, (200, 60, 50, 70), strict=True):
        reports(replica, running, at=2.0)
    pool.refresh(2.1)
    assert [replica.external_load for replica in pool.replicas] == [200, 60, 50, 70]


@pytest.mark.parametrize("strategy", ["consistent_hash", "prefix_affinity"])
def test_one_wrong_report_takes_no_bound_off_the_other_replicas(make_pool, strategy):
    pool = make_pool(4, strategy=strategy, slow_start_s=0)
    key = pool.affinity.hashes(b"hot " * 200)
    home = pool.begin(1.0, 0.0, key=key).replica
    lie(pool, next(replica for replica in pool.replicas if replica is not home))
    for _ in range(100):
        pool.begin(1.0, 2.1, key=key)
        # What is believed of it grows with what is usual.
        pool.refresh(2.1)
    most = max(replica.in_flight for replica in pool.replicas)
    assert most <= 1.5 * 101 / 3 + 1


def test_one_wrong_report_empties_no_site(make_snapshot):
    replicas = [{"site": "east"}] * 3 + [{"site": "west"}] * 3
    pool = Pool(make_snapshot(replicas, max_concurrency=8, slow_start_s=0), None, Random(1), site="east")
    lie(pool, pool.replicas[0])
    sent = [pool.begin(1.0, 2.1).replica.spec.site for _ in range(6)]
    assert sent == ["east"] * 6
