"""The first answers after a start are slow, at servers with slots and at those that batch."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from routing.simulator.batching import BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.faults import Crash
from routing.simulator.fleets import fixed_slots
from routing.simulator.gpus import Gpu
from routing.simulator.warm_up import WarmUp
from routing.simulator.workloads import EQUAL, MEAN_S
from tests.routing.simulator.test_batching import ask
from tests.routing.simulator.test_faults import Given

COLD = WarmUp(answers=2, factor=0.1)


def slots(count: int):
    fleet = fixed_slots([1.0], count)
    return replace(fleet, machines=[replace(fleet.machines[0], warm_up=COLD)])


def test_the_first_requests_of_a_slot_are_slowed_one_by_one(run):
    given = Given(*[(float(at), 0.1, inf) for at in range(4)])
    result = run(fleet=slots(8), workload=given)
    assert [request.latency_s for request in result.requests] == pytest.approx([1.0, 1.0, 0.1, 0.1])


def test_a_server_that_was_restarted_warms_up_again(run):
    crash = Crash(replica="r1", begin_s=6.0, end_s=7.0)
    result = run(fleet=slots(8), workload=EQUAL, load=0.1, duration_s=30.0, faults=[crash])
    slow = [request.sent_s for request in result.requests if request.latency_s > 2 * MEAN_S]
    assert sum(sent_s < 6.0 for sent_s in slow) == 2
    assert sum(sent_s >= 7.0 for sent_s in slow) == 2


def test_a_server_that_batches_is_slow_as_a_whole_until_it_has_answered():
    engine = Engine()
    step = Gpu(step_s=0.01, sequence_s=0.0, kv_token_s=0.0, prompt_token_s=0.0)
    server = BatchingServer(engine, 1.0, step)
    server.warm_up(COLD)
    long = ask(engine, server, 0.0, 1, 100)
    first, second = ask(engine, server, 0.0, 1, 10), ask(engine, server, 0.0, 1, 20)
    engine.run()
    # The two join after the first step. The step after their last one is under way when the server is warm.
    assert ends([first, second]) == pytest.approx([1.1, 2.1])
    assert long.ended_s == pytest.approx(2.1 + 0.1 + 78 * 0.01)
    after = ask(engine, server, 5.0, 1, 10)
    engine.run()
    assert after.ended_s == pytest.approx(5.0 + 10 * 0.01)


def ends(clients: Sequence) -> list[float]:
    return [client.ended_s for client in clients]
