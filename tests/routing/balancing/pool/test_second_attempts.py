"""Whether a request may be sent to a second replica: the queue, how busy the others are, the budget."""

import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.learning import reported_load
from routing.balancing.pool.pool import Pool
from routing.balancing.pool.second_attempts import MEASURED
from routing.balancing.replica.state import Replica
from routing.contract.load_report import ReportedLoad

NOW = 100.0


def busy_with(pool: Pool, *requests: int) -> Replica:
    """The first replica, of which one waits; so many are in flight at the others."""
    own, *others = pool.replicas
    while (
        any(one.in_flight < count for one, count in zip(others, requests, strict=True)) or not own.in_flight
    ):
        attempt = pool.begin(1.0, NOW)
        assert isinstance(attempt, Attempt)
        wanted = dict(zip(others, requests, strict=True)) | {own: 1}
        if attempt.replica.in_flight > wanted[attempt.replica]:
            attempt.settle(Outcome.CANCELLED, NOW)
    return own


@pytest.mark.parametrize(("requests", "objection"), [((5, 5, 5), ""), ((6, 5, 4), ""), ((6, 6, 5), "busy")])
def test_with_slots_the_others_are_at_most_seven_tenths_busy(make_pool, requests, objection):
    pool = make_pool(4, strategy="round_robin", max_concurrency=8)
    assert pool.second_objection(busy_with(pool, *requests), NOW) == objection


def test_what_waits_at_the_silent_replica_does_not_count(make_pool):
    pool = make_pool(3, strategy="round_robin", max_concurrency=4)
    own = pool.replicas[0]
    while own.in_flight < 4:
        attempt = pool.begin(1.0, NOW)
        if attempt.replica is not own:
            attempt.settle(Outcome.CANCELLED, NOW)
    assert pool.second_objection(own, NOW) == ""


def test_without_slots_it_goes_by_what_is_learned_of_their_growth(make_pool):
    pool = make_pool(2, strategy="round_robin")
    own, shape = busy_with(pool, 20), pool.speed.shape
    shape.growth = 2.0
    assert shape.evidence < MEASURED
    assert pool.second_objection(own, NOW) == "", "it was not measured"
    shape._deviation, shape._seen = 0.01, 1.0
    assert pool.second_objection(own, NOW + 0.06) == "busy"
    shape.growth = 1.2
    assert pool.second_objection(own, NOW + 0.12) == ""


@pytest.mark.parametrize(
    ("report", "objection"),
    [
        ({"kv_share": 0.5}, ""),
        ({"kv_share": 0.8}, "busy"),
        ({"utilization": 0.9}, "busy"),
        ({"kv_share": 0.1, "waiting": 3}, "busy"),
        ({"kv_share": 0.8, "age_s": 60.0}, ""),
    ],
)
def test_without_slots_it_goes_by_what_servers_report(make_pool, report, objection):
    pool = make_pool(2, strategy="round_robin")
    own, other = pool.replicas
    pool.second_objection(own, NOW)
    reported_load.record(other, ReportedLoad(running=1, **report), NOW)
    assert pool.second_objection(own, NOW + 0.06) == objection


def test_nobody_may_wait(make_pool):
    pool = make_pool(2)
    assert pool.second_objection(pool.replicas[0], NOW) == ""
    pool.admission.anybody_waits = True
    assert pool.second_objection(pool.replicas[0], NOW) == "queue"


def test_the_budget_has_an_end(make_pool):
    pool = make_pool(2)
    while not pool.second_objection(pool.replicas[0], NOW):
        pool.seconds.take()
    assert pool.second_objection(pool.replicas[0], NOW) == "budget"
    for _ in range(20):
        pool.request_seen()
    assert pool.second_objection(pool.replicas[0], NOW) == ""


def test_limits_follow_the_policy(make_pool, make_snapshot):
    pool = make_pool(2)
    seconds = pool.seconds
    assert not seconds.are_made
    snapshot = make_snapshot(2, version=2, first_token_limit_s=1.5)
    pool.replace(snapshot)
    assert (seconds.are_made, seconds.of_streams, seconds.of_plain) == (True, True, False)
    assert seconds.stream_limit_s(1.0) == 1.5
    pool.replace(make_snapshot(2, version=3, first_token_limit_s="auto"))
    assert seconds.stream_limit_s(1.0) == float("inf")
    for _ in range(20):
        seconds.began(0.2, 1.0)
    assert seconds.stream_limit_s(1.0) == pytest.approx(0.6)


def test_plain_requests_are_late_after_a_multiple_of_what_is_usual(make_pool):
    """Not of what their replica was learned to take, which may be the one that is silent."""
    pool = make_pool([{"weight": 2.0}, {}], plain_limit_factor=3.0)
    strong, weak = pool.replicas
    assert pool.seconds.plain_limit_s(weak, 4.0, True) == float("inf")
    for _ in range(20):
        pool.speed.predictions._completion[True].learn(0.0)
    pool.speed.base = 0.5
    strong.seconds_per_work = weak.seconds_per_work = 60.0
    assert pool.seconds.plain_limit_s(weak, 4.0, True) == pytest.approx(3 * 4 * 0.5)
    assert pool.seconds.plain_limit_s(strong, 4.0, True) == pytest.approx(3 * 4 * 0.25)
    assert pool.seconds.plain_limit_s(strong, 4.0, False) == float("inf")
