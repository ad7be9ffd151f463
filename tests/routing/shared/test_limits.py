"""Limits over several processes: never passed, and never lost to two claims that collide."""

import time
from random import Random

import pytest

from routing.shared.limits import give_back, take
from routing.shared.shm_counters import CounterCells, SharedCounters
from tests.routing.shared.blocks import block_fixture
from tests.routing.shared.test_shm_counters import in_processes, sum_at_one_moment

CLAIMED, HELD = 0, 1


block = block_fixture(workers=3, replicas=4)


def test_a_limit_is_one_for_all_workers(block):
    first, second = (SharedCounters.attach(block.fd, worker).claim("a") for worker in (0, 1))
    assert take(first, CLAIMED, 2, 3)
    assert take(second, CLAIMED, 1, 3)
    assert not take(first, CLAIMED, 1, 3)
    assert not take(second, CLAIMED, 0.5, 3)
    give_back(first, CLAIMED, 2)
    assert take(second, CLAIMED, 2, 3)
    assert (first.view[first.own], second.view[second.own]) == (0, 3)


def test_nothing_falls_below_nothing(block):
    cells = SharedCounters.attach(block.fd, 0).claim("a")
    give_back(cells, CLAIMED, 5)
    assert cells.view[cells.own + CLAIMED] == 0


def test_a_claim_that_is_taken_back_meanwhile_is_in_nobodys_way(block):
    first, second = (SharedCounters.attach(block.fd, worker).claim("a") for worker in (0, 1))

    class Interrupted(CounterCells):
        __slots__ = ()

        def siblings_sum(self, field):
            second.write(field, 0)
            return super().siblings_sum(field)

    first.__class__ = Interrupted
    second.write(CLAIMED, 1)
    assert take(first, CLAIMED, 1, 1)


@pytest.mark.parametrize("limit", [1, 2])
def test_racing_processes_never_pass_a_limit(block, limit):
    """What was granted is counted apart from the claims; each process looks at the sum with each grant."""

    def claimer(worker):
        def run():
            cells = SharedCounters.attach(block.fd, worker).claim("a")
            rng, granted, end = Random(worker), 0, time.monotonic() + 20
            while granted < 8000 and time.monotonic() < end:
                if take(cells, CLAIMED, 1, limit):
                    granted += 1
                    cells.write(HELD, 1)
                    assert sum_at_one_moment(cells, HELD) <= limit
                    for _ in range(rng.randrange(400)):
                        pass
                    cells.write(HELD, 0)
                    give_back(cells, CLAIMED, 1)
            assert granted == 8000

        return run

    assert in_processes(*map(claimer, range(3))) == [0, 0, 0]
