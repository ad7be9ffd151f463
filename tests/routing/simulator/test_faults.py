"""What goes wrong, and that the proxies' own guards see to it."""

from collections.abc import Iterator
from math import inf

import pytest

from routing.contract.policy import Policy, Queue, Retries
from routing.simulator.faults import ColdStart, Crash, FastFailure, Join, Slowdown
from routing.simulator.fleets import SimulatedFleet, fixed_slots
from routing.simulator.requests import ANSWERED, FAILED, LATE, REFUSED, Request
from routing.simulator.results import Result
from routing.simulator.workloads import EQUAL, MEAN_S, Traffic

FOUR = (1.0,) * 4
LOAD_BASED = ["least_expected_work", "least_connections", "peak_ewma", "power_of_two"]


class Given:
    """These requests: when, how long, and how long their clients wait."""

    name = sentence = "given"

    def __init__(self, *requests: tuple[float, float, float]) -> None:
        self._requests = requests

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        for at_s, seconds, deadline_s in self._requests:
            yield Request(at_s, seconds, deadline_s=deadline_s)


def share(result: Result, name: str, begin_s: float, end_s: float) -> float:
    """Of what was sent in that time, by where it was sent last."""
    there = [request.replica for request in result.requests if begin_s <= request.sent_s < end_s]
    return there.count(name) / len(there)


def test_a_slower_replica_is_slower_for_what_it_works_on_already(run):
    slow = Slowdown(replica="r1", begin_s=10.0, end_s=20.0, factor=0.2)
    result = run("random", speeds=(1.0,), load=0.05, workload=EQUAL, duration_s=60.0, faults=[slow])
    slowly = [request for request in result.requests if 10 <= request.at_s < 19]
    assert [request.latency_s for request in slowly] == [pytest.approx(5 * MEAN_S)] * len(slowly) != []
    usual = [request for request in result.requests if request.ended_s < 10 or request.at_s > 21]
    assert [request.latency_s for request in usual] == [pytest.approx(MEAN_S)] * len(usual) != []


def test_what_a_slot_works_on_when_the_speed_changes_takes_as_long_as_its_two_parts(run):
    slow = Slowdown(replica="r1", begin_s=0.5, end_s=9.0, factor=0.5)
    result = run(fleet=fixed_slots([1.0], 1), workload=Given((0.0, 1.0, inf)), faults=[slow])
    assert result.requests[0].ended_s == pytest.approx(0.5 + 0.5 / 0.5)


def test_a_crash_loses_what_was_there_once_and_costs_nobody_an_answer(run):
    crash = Crash(replica="r2", begin_s=2.0, end_s=8.0)
    result = run("round_robin", speeds=FOUR, load=0.5, duration_s=24.0, faults=[crash])
    assert result.ends[FAILED] + result.ends[REFUSED] == 0
    again = [request for request in result.requests if request.attempts > 1]
    assert again, "what was lost or refused was tried elsewhere"
    assert all(request.replica != "r2" for request in again if request.ended_s < 8.0)
    # Ejected after a few, down by the table, and back for good after its ejection's one probe request.
    assert share(result, "r2", 2.5, 8.0) < 0.02
    assert share(result, "r2", 18.0, 24.0) > 0.02


def test_what_was_refused_goes_to_another_replica(run):
    down = Crash(replica="r1", begin_s=0.0, end_s=2.0)
    (request,) = run(
        "round_robin", speeds=(8.0, 1.0), workload=Given((0.5, 0.1, inf)), faults=[down]
    ).requests
    assert (request.end, request.replica, request.attempts) == (ANSWERED, "r2", 2)


def test_without_retries_a_crash_is_told_to_clients(run):
    policy = Policy(queue=Queue(at="replica"), retries=Retries(budget_percent=0.0))
    crash = Crash(replica="r2", begin_s=1.0, end_s=2.9)
    result = run(speeds=FOUR, load=0.7, faults=[crash], policy=policy)
    assert result.ends[FAILED] > 0
    lost = [request for request in result.requests if request.end == FAILED]
    assert {request.attempts for request in lost} == {1}
    assert {request.attempts for request in result.requests} <= {1, 2}, "unsent ones go elsewhere"


@pytest.mark.parametrize("strategy", LOAD_BASED)
def test_a_replica_that_fails_at_once_does_not_draw_the_traffic(run, strategy):
    fail = FastFailure(replica="r16", begin_s=1.0, end_s=3.0)
    result = run(strategy, load=0.7, faults=[fail])
    assert 0 < result.ends[FAILED] / len(result.requests) <= 0.005
    assert result.ends[FAILED] + result.ends[ANSWERED] == len(result.requests)


def test_a_cold_replica_gets_nothing_until_it_has_passed_and_little_at_first(run):
    cold = ColdStart(replica="r1", ready_s=2.0)
    result = run(speeds=FOUR, load=0.5, duration_s=8.0, faults=[cold])
    assert share(result, "r1", 0.0, 3.0) == 0.0
    assert {request.attempts for request in result.requests} == {1}, "nobody is sent there in vain"
    assert 0 < share(result, "r1", 3.0, 8.0) < 0.1
    assert result.not_answered == 0


def test_a_replica_that_joins_later_gets_nothing_before_and_little_at_first(run):
    join = Join(replica="r2", at_s=2.0)
    policy = Policy(queue=Queue(at="replica"), slow_start_s=10.0)
    result = run("round_robin", speeds=FOUR, load=0.5, duration_s=40.0, faults=[join], policy=policy)
    assert share(result, "r2", 0.0, 2.0) == 0.0
    assert 0 < share(result, "r2", 3.0, 6.0) < 0.2
    assert share(result, "r2", 20.0, 40.0) == pytest.approx(0.25, abs=0.01)
    assert result.not_answered == 0
    assert {request.attempts for request in result.requests} == {1}, "nobody is sent there in vain"


def test_a_client_that_stops_waiting_leaves_and_frees_its_slot(run):
    given = Given((0.0, 10.0, 1.0), (0.5, 0.1, inf))
    for at in ("replica", "proxy"):
        first, second = run(fleet=fixed_slots([1.0], 1), workload=given, at=at).requests
        assert (first.end, first.ended_s) == (LATE, 1.0)
        assert (second.end, second.ended_s) == (ANSWERED, pytest.approx(1.1))


def test_a_client_that_waits_in_the_line_may_leave_it(run):
    given = Given((0.0, 2.0, inf), (0.5, 0.1, 1.0))
    _, second = run(fleet=fixed_slots([1.0], 1), workload=given, at="proxy").requests
    assert (second.end, second.ended_s, second.replica) == (LATE, 1.5, "")


def test_more_than_fits_is_refused_by_the_proxy_where_requests_wait_there(run):
    result = run(speeds=(1.0,), load=3.0, duration_s=10.0, at="proxy")
    assert result.ends[REFUSED] > 0.3 * len(result.requests)
    assert result.ends[REFUSED] + result.ends[ANSWERED] == len(result.requests)


def test_a_fault_at_a_replica_that_is_not_there_is_told(run):
    with pytest.raises(ValueError, match="there is no replica 'r9'; choose one of: r1, r2"):
        run(speeds=(1.0, 1.0), faults=[Crash(replica="r9", begin_s=1.0, end_s=2.0)])
