"""Limits shared out between proxies."""

from random import Random

import pytest

from routing.attempts.outcome import Outcome
from routing.pool.pool import Pool
from routing.pool.table import Table
from routing.shared.host_share import HostShare, Sharer, Spill


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
    assert [HostShare(position, count).of(limit) for position in range(count)] == parts


def test_a_replicas_slots_follow_the_share(make_snapshot):
    share = HostShare()
    pool = Pool(make_snapshot([{"max_concurrency": 9}, {}, {}], max_concurrency=4), None, Random(1), share)

    def slots(now):
        pool.refresh(now)
        return [replica.concurrency for replica in pool.replicas]

    assert slots(1.0) == [9, 4, 4]
    assert share.change(0, 2)
    assert slots(2.0) == [5, 2, 2]
    assert share.change(1, 2)
    assert slots(3.0) == [4, 2, 2]
    assert not share.change(1, 2)
    assert share.change(0, 1)
    assert slots(4.0) == [9, 4, 4]


def test_more_proxies_count_at_once_and_fewer_after_a_while():
    share = HostShare()
    a, b, c = Sharer("a"), Sharer("b"), Sharer("c")
    assert share.heard(c, [a, b, c], (), 10.0)
    assert (share.position, share.count) == (2, 3)
    assert not share.heard(c, [c], (), 11.0)
    assert not share.heard(c, [b, c], (), 12.9)
    assert share.heard(c, [b, c], (), 13.0), "the first was not heard for three seconds"
    assert (share.position, share.count) == (1, 2)
    assert not share.heard(c, [c], (), 15.9)
    assert not share.heard(c, [b, c], (), 15.95)
    assert not share.heard(c, [c], (), 18.9)
    assert share.heard(c, [c], (), 19.0)
    assert (share.position, share.count) == (0, 1)


EAST = [Sharer("e1", "east"), Sharer("e2", "east")]
WEST = [Sharer("w1", "west"), Sharer("w2", "west")]
NOWHERE = Sharer("n")


def parts(limit, sharers, site="east", spills=()):
    """Each one's part of a replica of the fleet "digits", as all of them see it after a while."""
    shares = {}
    for own in sharers:
        shares[own.name] = share = HostShare()
        share.begin_with(own, sharers, spills, 1.0)
    return {name: share.of_site(limit, "digits", site) for name, share in shares.items()}


def test_a_replicas_places_are_shared_by_the_proxies_of_its_site_and_those_that_spill():
    assert parts(32, EAST + WEST) == {"e1": 15, "e2": 15, "w1": 1, "w2": 1}
    assert parts(32, EAST + WEST, "west") == {"e1": 1, "e2": 1, "w1": 15, "w2": 15}
    spilling = [Spill("digits", "w2"), Spill("others", "w1")]
    assert parts(32, EAST + WEST, spills=spilling) == {"e1": 11, "e2": 10, "w1": 1, "w2": 10}
    assert parts(33, [*EAST, *WEST, NOWHERE]) == {"e1": 11, "e2": 10, "w1": 1, "w2": 1, "n": 10}
    assert parts(4, EAST + WEST) == parts(3, EAST + WEST) == {"e1": 1, "e2": 1, "w1": 1, "w2": 1}
    assert parts(10, EAST + WEST, "north") == {"e1": 3, "e2": 3, "w1": 2, "w2": 2}, "nobody's own"


def test_a_proxy_takes_places_elsewhere_when_the_others_must_have_left_them():
    """Reports cross each other for up to a second; whatever each has heard, the limit holds."""
    spill, sharers = Spill("digits", "w1"), [*EAST[:1], *WEST[:1]]
    east, west = HostShare(), HostShare()
    for share, own in ((east, EAST[0]), (west, WEST[0])):
        share.begin_with(own, sharers, (), 0.0)

    def heard(now, spills):
        """The west hears at once, the east a second later: of what began, and of what ended."""
        west.heard(WEST[0], sharers, spills, now)
        seen = east.of_site(9, "digits", "east"), west.of_site(9, "digits", "east")
        assert sum(seen) <= 9
        east.heard(EAST[0], sharers, spills, now + 0.99)
        seen = east.of_site(9, "digits", "east"), west.of_site(9, "digits", "east")
        assert sum(seen) <= 9
        return seen

    assert heard(1.0, []) == (8, 1)
    assert heard(2.0, [spill]) == (5, 1)
    assert heard(4.0, [spill]) == (5, 1)
    assert heard(5.0, [spill]) == (5, 4)
    assert heard(8.0, [spill]) == (5, 4)
    assert heard(9.0, []) == (5, 1)
    assert heard(10.0, []) == (5, 1)
    assert heard(12.0, []) == (8, 1)
    assert heard(13.0, [spill]) == (5, 1), "it waits again"


def test_which_proxy_has_how_many_places_goes_by_the_replicas_site(make_snapshot):
    share = HostShare()
    share.begin_with(WEST[0], [*EAST[:1], *WEST[:1]], (), 1.0)
    sites = [{"site": "east"}, {"site": "west"}, {}]

    def slots(**policy):
        pool = Pool(make_snapshot(sites, max_concurrency=8, **policy), None, Random(1), share, "west")
        pool.refresh(1.0)
        return [replica.concurrency for replica in pool.replicas]

    assert slots() == [1, 7, 4]
    assert slots(locality={"prefer": "none"}) == [4, 4, 4]


def test_a_pool_says_while_its_requests_are_at_other_sites(make_snapshot):
    pool = Pool(make_snapshot([{"site": "east"}, {"site": "west"}]), None, Random(1), site="east")

    def says(now):
        pool.report(now)
        return pool.asks_elsewhere

    own = pool.begin(1.0, 1.0)
    assert (own.replica.name, says(1.0)) == ("r0", False)
    far = pool.begin(1.0, 1.0, (own.replica,))
    assert [says(2.0), says(3.0)] == [True, True]
    far.settle(Outcome.SUCCESS, 4.0)
    own.settle(Outcome.SUCCESS, 4.0)
    assert not says(4.0)
    pool.begin(1.0, 4.0, (own.replica,)).settle(Outcome.SUCCESS, 4.1)
    assert [says(5.0), says(6.0)] == [True, False]


def test_a_server_without_a_limit_has_none_to_share(make_pool):
    pool = make_pool(1)
    pool.refresh(1.0)
    assert pool.replicas[0].concurrency is None


def test_every_fleet_of_a_table_shares_alike(make_snapshot):
    table = Table()
    table.host_share.change(1, 2)
    table.apply_snapshot(make_snapshot(1, max_concurrency=5))
    pool = table.fleets["digits"]
    pool.refresh(1.0)
    assert pool.replicas[0].concurrency == 2


def test_where_requests_wait_at_the_replica_max_concurrency_is_what_it_works_on_and_no_limit(make_pool):
    pool = make_pool(1, max_concurrency=2, queue={"at": "replica"})
    attempts = [pool.begin(1.0, 1.0) for _ in range(5)]
    assert [type(attempt).__name__ for attempt in attempts] == ["Attempt"] * 5
    assert pool.replicas[0].concurrency == 2
    assert pool.begin(1.0, 1.0).replica.in_flight == 6
