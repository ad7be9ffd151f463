"""Deadlines and first tokens in simulations: what is due, what was in time, and that knowing it helps."""

import pytest

from routing.simulator.objectives import Deadlines, WithDeadlines, in_time
from routing.simulator.options import BadSimulationOptions, SimulationOptions, parse
from routing.simulator.requests import ANSWERED, LATE, Request
from routing.simulator.results import Result
from routing.simulator.simulation import simulate
from routing.simulator.workloads import BIMODAL, Traffic

LLM = "--workload llm --steady --strategies least_expected_work --estimates exact"


def options(text: str) -> SimulationOptions:
    return parse(f"{LLM} {text}".split())


def run(text: str, strategy: str = "least_expected_work") -> Result:
    return simulate(options(text).setting, strategy)


def test_deadlines_are_drawn_and_the_same_each_time() -> None:
    fleet = options("").setting.fleet
    workload = WithDeadlines(BIMODAL, Deadlines(2.0, share=0.25))
    first, second = (
        [one.deadline_s for one in workload.requests(Traffic(seed=3, duration_s=5), fleet)] for _ in range(2)
    )
    assert first == second
    assert set(first) == {2.0, float("inf")}
    assert first.count(2.0) / len(first) == pytest.approx(0.25, abs=0.05)


def test_a_relative_deadline_is_times_what_a_request_takes_alone() -> None:
    fleet = options("--speeds 2x4").setting.fleet
    workload = WithDeadlines(BIMODAL, Deadlines(3.0, relative=True))
    for one in workload.requests(Traffic(duration_s=1), fleet):
        assert one.deadline_s == pytest.approx(3.0 * one.seconds / 2)


def test_what_was_in_time() -> None:
    def request(end: str, ended_s: float, deadline_s: float, first_s: float) -> Request:
        one = Request(1.0, output_tokens=5, deadline_s=deadline_s)
        one.end, one.ended_s, one.first_byte_s = end, ended_s, first_s
        return one

    requests = [
        request(ANSWERED, 2.0, 3.0, 1.1),
        request(LATE, 4.0, 3.0, 1.5),
        request(ANSWERED, 9.0, float("inf"), 1.2),
    ]
    assert in_time(requests, 0.25) == (0.5, pytest.approx(2 / 3), 8.0, 8.0)
    assert in_time(requests, None).first_tokens_in_time is None


@pytest.mark.parametrize("value", ["0", "x", "8:0", "8:2", "-1", "1.5y", ""])
def test_a_wrong_deadline_is_refused_with_what_to_write(value: str) -> None:
    with pytest.raises(BadSimulationOptions, match=r"as in 8, 2\.5x or 8:0"):
        options(f"--deadline={value}")


def test_long_requests_meet_more_deadlines_where_they_are_known() -> None:
    hidden, known = (
        run(f"--load 0.85 --duration 60 --deadline 8 {more}") for more in ("--hide-deadlines", "")
    )
    met = [in_time(one.requests, None).deadlines_met or 0.0 for one in (hidden, known)]
    assert met[1] > met[0] + 0.01
    assert hidden.counters[0].picked_in_time == 0
    assert known.counters[0].picked_in_time > 0


def test_where_all_need_the_same_servers_no_harm_is_done() -> None:
    """More than half of the requests are late whatever is done."""
    hidden, known = (
        run(f"--load 0.85 --duration 60 --deadline 2x {more}") for more in ("--hide-deadlines", "")
    )
    met = [in_time(one.requests, None).deadlines_met or 0.0 for one in (hidden, known)]
    assert met[0] < 0.6
    assert met[1] > met[0] - 0.01


def test_first_tokens_come_in_time_more_often() -> None:
    text = "--load 0.6 --duration 60 --first-token 0.1"
    hidden, known = run(f"{text} --hide-deadlines"), run(text)
    met = [in_time(one.requests, one.first_token_s).first_tokens_in_time or 0.0 for one in (hidden, known)]
    assert met[1] > met[0] + 0.005
