"""Modes of an attempt: whatever becomes of it, its replica is judged as before once it is settled."""

from itertools import product

import pytest

from routing.balancing.attempt.attempt import MONITORED, OPEN, SETTLED, SHORT_DEADLINE, UPLOADING, Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.attempt.tunnel import TunnelAttempt

VERBS = {
    "monitor": lambda attempt: attempt.monitor(),
    "stop_monitoring": lambda attempt: attempt.stop_monitoring(),
    "mark_short_deadline": lambda attempt: attempt.mark_short_deadline(),
    "wait_for_client": lambda attempt: attempt.wait_for_client(),
    "wait_for_replica": lambda attempt: attempt.wait_for_replica(2.0),
}


@pytest.mark.parametrize("outcome", Outcome)
def test_every_order_of_two_verbs_leaves_the_replica_as_it_was(make_pool, outcome):
    for first, second in product(VERBS, repeat=2):
        pool = make_pool(1)
        [replica] = pool.replicas
        attempt = pool.begin(1.0, 1.0)
        VERBS[first](attempt)
        VERBS[second](attempt)
        assert replica.stall_exempt == (attempt.mode in (SHORT_DEADLINE, UPLOADING)), (first, second)
        attempt.settle(outcome, 3.0)
        assert (attempt.mode, replica.stall_exempt, replica.in_flight) == (SETTLED, 0, 0), (first, second)
        with pytest.raises(RuntimeError, match="settled twice"):
            attempt.settle(outcome, 3.0)


@pytest.mark.parametrize("verb", VERBS)
def test_a_tunnel_is_never_judged_whatever_the_attempt_before_it_was(make_pool, verb):
    pool = make_pool(1)
    [replica] = pool.replicas
    attempt = pool.begin(1.0, 1.0)
    VERBS[verb](attempt)
    tunnel = TunnelAttempt(attempt, 2.0)
    assert (replica.in_flight, replica.stall_exempt) == (1, 1)
    tunnel.settle(Outcome.SUCCESS, 3.0)
    assert (replica.in_flight, replica.stall_exempt) == (0, 0)


def test_a_short_deadline_is_not_monitored_and_a_monitored_one_does_not_wait_for_its_client(make_pool):
    attempt = make_pool(1).begin(1.0, 1.0)
    assert attempt.mode == OPEN
    attempt.monitor()
    attempt.wait_for_client()
    assert attempt.mode == MONITORED
    attempt.mark_short_deadline()
    attempt.monitor()
    attempt.wait_for_client()
    assert attempt.mode == SHORT_DEADLINE


def test_silence_counts_from_when_the_client_has_sent_all(make_pool):
    pool = make_pool(1)
    attempt = pool.begin(1.0, 1.0)
    attempt.wait_for_client()
    assert pool.replicas[0].quiet_since == 1.0
    attempt.wait_for_replica(9.0)
    assert (attempt.mode, pool.replicas[0].quiet_since) == (OPEN, 9.0)


def test_what_is_written_off_holds_no_slot_and_teaches_nothing(make_pool):
    pool = make_pool(1, max_concurrency=1)
    lost = pool.begin(1.0, 1.0)
    replica = lost.replica
    assert not isinstance(pool.begin(1.0, 1.1), Attempt)
    lost.write_off()
    assert (replica.in_flight, replica.load, replica.load_work) == (0, 0, 0.0)
    lost.write_off()
    next_one = pool.begin(1.0, 2.0)
    assert isinstance(next_one, Attempt)
    next_one.settle(Outcome.SUCCESS, 2.1)
    speed = replica.seconds_per_work
    lost.settle(Outcome.SUCCESS, 600.0)
    assert replica.in_flight == 0
    assert replica.succeeded == 2
    assert replica.seconds_per_work == speed
    with pytest.raises(RuntimeError):
        lost.settle(Outcome.SUCCESS, 600.0)


def test_so_does_one_whose_client_is_impatient(make_pool):
    pool = make_pool(1)
    attempt = pool.begin(1.0, 1.0)
    attempt.mark_short_deadline()
    attempt.write_off()
    assert (attempt.replica.in_flight, attempt.replica.stall_exempt) == (0, 0)
    attempt.settle(Outcome.CANCELLED, 3.0)
    assert (attempt.replica.in_flight, attempt.replica.stall_exempt) == (0, 0)
