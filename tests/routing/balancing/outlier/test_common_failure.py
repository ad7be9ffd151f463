"""What the whole fleet failed with alike ejects none of its replicas afterwards."""

import logging

import pytest
from msgspec.structs import replace

from routing.balancing.attempt.outcome import Outcome
from tests.routing.balancing.outlier.test_silence import serve


@pytest.fixture
def pool(make_pool):
    """Four replicas that answer in 50 ms; the fleet's p99 is known."""
    pool = make_pool(4, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    return pool


def hang(pool, begin, end, replicas, count=8):
    """So many requests at each of these replicas, none of which is answered; the others answer."""
    left = {name: [] for name in replicas}
    now = begin
    while now < end:
        attempt = pool.begin(1.0, now)
        name = attempt.replica.name
        if name in left and len(left[name]) < count:
            left[name].append(attempt)
        else:
            attempt.settle(Outcome.CANCELLED if name in left else Outcome.SUCCESS, now)
        now += 0.02
    assert all(len(attempts) == count for attempts in left.values())
    return left


def heal(pool, left, now, outcome=Outcome.LOST):
    """A hundred requests a second are answered, of which r0 gets one in two seconds. After half a minute what
    hung comes to a bad end, one after the other. Returns how often each replica was ejected."""
    for number in range(6000):
        name = f"r{1 + number % 3}" if number % 200 else "r0"
        pool._pick = lambda found, *_, name=name: next((r for r in found if r.name == name), found[-1])
        pool.begin(1.0, now).settle(Outcome.SUCCESS, now + 0.005)
        now += 0.01
        if number > 3000 and number % 200 == 100:
            for attempts in left.values():
                if attempts:
                    attempts.pop().settle(outcome, now)
    assert not any(left.values())
    return [replica.ejection.count for replica in pool.replicas]


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.TIMEOUT, Outcome.FAILED])
def test_a_hang_of_all_ejects_none_of_them(pool, outcome):
    """The one with the fewest answers since would be: 8 of some 20 failed lately."""
    left = hang(pool, 25.0, 28.0, ["r0", "r1", "r2", "r3"])
    assert heal(pool, left, 28.0, outcome) == [0, 0, 0, 0]


def test_that_of_one_does(pool):
    left = hang(pool, 25.0, 26.0, ["r0"])
    assert heal(pool, left, 26.0)[0] > 0


def failing(pool, begin, end, names):
    now = begin
    while now < end:
        attempt = pool.begin(1.0, now)
        bad = attempt.replica.name in names
        attempt.settle(Outcome.FAILED if bad else Outcome.SUCCESS, now + 0.005)
        now += 0.02


def test_those_that_were_ejected_meanwhile_are_asked_at_once(pool):
    """Half of them, which is the limit; all others fail on."""
    failing(pool, 25.0, 26.0, ["r0", "r1", "r2", "r3"])
    out = [replica for replica in pool.replicas if replica.ejection.until]
    assert len(out) == 2
    assert all(replica.ejection.until > 29.0 for replica in out)
    failing(pool, 26.0, 27.0, [])
    assert not any(replica.ejection.until for replica in pool.replicas)
    assert all(replica.ejection.failures == 0 for replica in pool.replicas)


def test_those_that_were_out_before_are_not(pool):
    failing(pool, 25.0, 26.0, ["r0"])
    state = pool.replicas[0].ejection
    due = state.until
    assert due > 29.0
    failing(pool, 26.0, 27.0, ["r0", "r1", "r2", "r3"])
    failing(pool, 27.0, 27.5, [])
    assert state.until == due
    assert not pool.replicas[1].ejection.until


def test_one_that_fails_while_the_others_rest_is_at_fault(make_pool):
    """No success of another for a while, for nothing is asked of it."""
    pool = make_pool(4, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    pool._pick = lambda found, *_: found[0]
    failing(pool, 25.0, 30.0, ["r0"])
    assert pool.replicas[0].ejection.until


def test_a_probe_request_sent_before_decides_nothing_and_is_followed_by_the_next(pool):
    failing(pool, 25.0, 26.0, ["r0"])
    bad = pool.replicas[0]
    now = bad.ejection.until
    failing(pool, 26.0, now - 0.1, [])
    probe = pool.begin(1.0, now)
    assert probe.replica is bad
    failing(pool, now + 0.02, now + 1.0, ["r0", "r1", "r2", "r3"])
    failing(pool, now + 1.0, now + 1.5, [])
    assert bad.ejection.until
    probe.settle(Outcome.LOST, now + 1.5)
    again = pool.begin(1.0, now + 1.6)
    assert (again.probe, again.replica) == (True, bad)
    again.settle(Outcome.SUCCESS, now + 1.65)
    assert not bad.ejection.until


def test_it_lasts_where_a_replica_leaves_and_takes_its_successes_along(pool):
    """A sum of fewer successes is not one more."""
    failing(pool, 25.0, 26.0, ["r0", "r1", "r2", "r3"])
    out = [replica for replica in pool.replicas if replica.ejection.until]
    due = [replica.ejection.until for replica in out]
    others = [replica for replica in pool.replicas if replica not in out]
    stays = [replica.spec for replica in (*out, others[0])]
    pool.replace(replace(pool.snapshot, version=2, replicas=stays))
    pool.refresh(26.2)
    assert [replica.ejection.until for replica in out] == due
    failing(pool, 26.3, 27.0, [])
    assert not any(replica.ejection.until for replica in pool.replicas)
    assert all(replica.ejection.failures == 0 for replica in pool.replicas)


def test_one_of_a_fleet_that_never_succeeded_is_timed_from_its_beginning(make_pool, caplog):
    pool = make_pool(4, strategy="round_robin", slow_start_s=0)
    failing(pool, 9000.0, 9001.0, ["r0", "r1", "r2", "r3"])
    with caplog.at_level(logging.INFO, logger="routing"):
        failing(pool, 9001.0, 9001.5, [])
    assert "all replicas of fleet digits failed alike for 1." in caplog.text
