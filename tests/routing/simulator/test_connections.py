"""Opening a connection takes time; an idle one is used again, as by the real proxy."""

from math import inf

import pytest

from routing.contract.policy import Policy, Queue
from routing.proxy.settings import ProxySettings
from routing.simulator import connections
from routing.simulator.faults import Crash
from routing.simulator.fleets import fixed_slots
from routing.simulator.requests import LATE
from tests.routing.simulator.test_faults import Given

ONE = fixed_slots([1.0], 8)


def latencies(result) -> list[float]:
    return [request.latency_s for request in result.requests]


def test_one_that_is_idle_is_used_again_until_it_is_closed(run):
    idle_s = connections.MAX_IDLE_S
    given = Given((0.0, 0.1, inf), (0.5, 0.1, inf), (0.5, 0.1, inf), (0.9 + idle_s, 0.1, inf))
    assert latencies(run(fleet=ONE, workload=given, connect_s=0.2)) == pytest.approx([0.3, 0.1, 0.3, 0.3])
    assert latencies(run(fleet=ONE, workload=given)) == pytest.approx([0.1] * 4)


def test_a_server_that_has_started_again_has_none_of_the_old_ones(run):
    given = Given((0.0, 0.1, inf), (1.0, 0.1, inf))
    policy = Policy(queue=Queue(at="replica"))
    crash = Crash(replica="r1", begin_s=0.5, end_s=0.6)
    result = run(fleet=ONE, workload=given, connect_s=0.2, faults=[crash], policy=policy)
    assert latencies(result) == pytest.approx([0.3, 0.3])


def test_a_client_that_leaves_while_it_is_opened_sends_nothing(run):
    one_slot = fixed_slots([1.0], 1)
    given = Given((0.0, 5.0, 0.1), (0.2, 0.1, inf))
    left, served = run(fleet=one_slot, workload=given, connect_s=0.15).requests
    assert left.end == LATE
    assert served.latency_s == pytest.approx(0.15 + 0.1)


def test_one_is_idle_for_as_long_as_at_the_real_proxy():
    assert ProxySettings().idle_connection_s == connections.MAX_IDLE_S
