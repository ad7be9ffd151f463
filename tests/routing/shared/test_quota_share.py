"""Limits shared out between proxies."""

from random import Random

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.shared.quota_share import QuotaShare


@pytest.mark.parametrize(
    ("limit", "count", "parts"),
    [
        (10, 1, [10]),
        (10, 3, [4, 3, 3]),
        (9, 3, [3, 3, 3]),
        (3, 3, [1, 1, 1]),
        (2, 4, [1, 1, 1, 1]),
        (0, 3, [0, 0, 0]),
    ],
)
def test_a_limit_is_shared_out(limit, count, parts):
    assert [QuotaShare(position, count).share_of(limit) for position in range(count)] == parts


def test_a_replicas_slots_follow_the_share(make_snapshot):
    share = QuotaShare()
    pool = Pool(make_snapshot([{"max_concurrency": 9}, {}, {}], max_concurrency=4), None, Random(1), share)

    def slots(now):
        pool.refresh(now)
        return [replica.concurrency for replica in pool.replicas]

    assert slots(1.0) == [9, 4, 4]
    assert share.set(0, 2)
    assert slots(2.0) == [5, 2, 2]
    assert share.set(1, 2)
    assert slots(3.0) == [4, 2, 2]
    assert not share.set(1, 2)
    assert share.set(0, 1)
    assert slots(4.0) == [9, 4, 4]


def test_more_proxies_count_at_once_and_fewer_after_a_while():
    share = QuotaShare()
    assert share.update(2, 3, 10.0)
    assert not share.update(0, 1, 11.0)
    assert not share.update(1, 2, 13.9)
    assert (share.position, share.count) == (2, 3)
    assert not share.update(2, 3, 13.95)
    assert not share.update(1, 2, 14.0), "the others were heard in between"
    assert not share.update(1, 2, 16.9)
    assert share.update(1, 2, 17.0)
    assert (share.position, share.count) == (1, 2)
    assert share.update(0, 2, 17.1)


def test_a_server_without_a_limit_has_none_to_share(make_pool):
    pool = make_pool(1)
    pool.refresh(1.0)
    assert pool.replicas[0].concurrency is None


def test_every_fleet_of_a_table_shares_alike(make_snapshot):
    table = Table()
    table.quota_share.set(1, 2)
    table.apply_snapshot(make_snapshot(1, max_concurrency=5))
    pool = table.fleets["digits"]
    pool.refresh(1.0)
    assert pool.replicas[0].concurrency == 2


def test_where_requests_wait_at_the_replica_max_concurrency_is_what_it_works_on_and_no_limit(make_pool):
    pool = make_pool(1, max_concurrency=2, queue={"at": "replica"})
    attempts = [pool.begin(1.0, 1.0) for _ in range(5)]
    assert all(isinstance(attempt, Attempt) for attempt in attempts)
    assert pool.replicas[0].concurrency == 2
    assert pool.begin(1.0, 1.0).replica.in_flight == 6
