"""A minute's limit over several workers: exact, as time moves, and between real processes."""

import time
from random import Random

import pytest

from routing.shared.shm_counters import SharedCounters, private_cells
from routing.shared.sliding_window import SharedSlidingWindow
from tests.clock import Clock
from tests.routing.shared.blocks import block_fixture
from tests.routing.shared.test_shm_counters import in_processes

block = block_fixture(workers=3, replicas=4)


@pytest.fixture
def clock():
    return Clock(1000.5)


@pytest.fixture
def windows(block, clock):
    return [
        SharedSlidingWindow(SharedCounters.attach(block.fd, worker).claim("a"), clock) for worker in range(3)
    ]


def granted(window, limit, tries=100):
    return sum(window.take(1, limit) for _ in range(tries))


def test_a_limit_is_one_for_all_workers(windows):
    assert granted(windows[0], 10, tries=4) == 4
    assert granted(windows[1], 10) == 6
    assert granted(windows[2], 10) == granted(windows[0], 10) == 0
    assert [window.used() for window in windows] == [10, 10, 10]


def test_a_worker_alone_counts_for_itself(clock):
    window = SharedSlidingWindow(private_cells(), clock)
    assert granted(window, 3) == 3
    clock.now += 60
    assert granted(window, 3) == 3


def test_what_was_had_counts_for_the_rest_of_its_second_and_59_more(windows, clock):
    """Seen by the one who had it and by one who has not looked since."""
    assert granted(windows[0], 5) == 5
    clock.now = 1059.99
    assert granted(windows[0], 5) == granted(windows[1], 5) == 0
    clock.now = 1060.0
    assert granted(windows[1], 5, tries=3) == 3
    assert granted(windows[2], 5) == 2


def test_it_comes_back_as_it_was_had(windows, clock):
    for second in range(10):
        clock.now = 1000.5 + second
        assert windows[second % 3].take(2, 20)
    for second in range(10):
        clock.now = 1060.0 + second
        assert granted(windows[1], 20) == 2
        clock.now += 0.99
        assert granted(windows[0], 20) == 0


def test_who_spreads_it_evenly_gets_all_of_it(windows, clock):
    for request in range(600):
        clock.now = 1000.5 + request * 1.0
        assert windows[request % 3].take(1, 60)


def test_nothing_is_granted_into_a_second_that_is_over(windows, clock):
    """The peers' past is summed once a second, so whom his second overtakes begins anew."""
    first, second = windows[:2]
    asked = 0

    def overtaken():
        nonlocal asked
        asked += 1
        if asked > 1:
            return clock.now
        # Between the first's look at the clock and its claim.
        clock.now = 1001.0
        assert second.take(1, 10)
        return 1000.9

    first._clock = overtaken
    assert first.take(9, 10)
    assert granted(second, 10) == 0
    clock.now = 1060.5
    assert granted(second, 10) == 0


def test_claims_that_were_taken_back_are_in_nobodys_way(windows, clock):
    first, second = windows[:2]
    meanwhile = []

    class Interrupted(SharedSlidingWindow):
        __slots__ = ()

        def _sum(self, at):
            while meanwhile:
                meanwhile.pop()()
            return super()._sum(at)

    def second_looks():
        clock.now = 1001.0
        assert second.take(1, 100)

    first.__class__ = Interrupted
    meanwhile.append(second_looks)
    # While the claim of the first is there, the second sums what was had before.
    assert not first.take(50, 20)
    assert not meanwhile
    assert granted(second, 20) == 19


def test_a_limit_that_changes_leaves_what_was_had(windows):
    assert granted(windows[0], 10) == 10
    assert granted(windows[1], 12) == 2
    assert granted(windows[2], 5) == 0
    assert windows[2].used() == 12


def test_what_is_added_may_pass_the_limit(windows, clock):
    windows[0].add(70)
    clock.now += 1
    windows[1].add(50)
    windows[1].add(0)
    assert windows[2].used() == 120
    assert not windows[2].take(1, 100)
    first, second = 1060 - clock.now, 1061 - clock.now
    assert windows[2].seconds_until(1) == (first, second)
    assert windows[2].seconds_until(70) == (first, second)
    assert windows[0].seconds_until(71) == (second, second)
    assert windows[0].seconds_until(1000) == (second, second)
    assert windows[1].seconds_until(0) == (0, second)
    clock.now = 1060
    assert windows[0].used() == 50
    clock.now = 2000
    assert windows[1].used() == windows[0].used() == 0
    assert windows[2].seconds_until(1) == (0, 0)


def test_a_peer_that_has_not_looked_since_holds_nothing_of_a_minute_before(windows, clock):
    windows[0].add(5)
    clock.now = 1030.0
    windows[0].add(7)
    clock.now = 1059.5
    assert windows[1].seconds_until(12) == (1090 - 1059.5, 1090 - 1059.5)
    # The place of second 1000 is that of 1060 now, to which the first has not come.
    clock.now = 1065.0
    assert windows[1].used() == 7
    assert windows[1].seconds_until(5) == (25.0, 25.0)
    assert windows[1].seconds_until(8) == (25.0, 25.0)
    clock.now = 1060.0 + 45
    assert windows[1].seconds_until(1) == (0, 0)


def test_workers_come_and_go_within_a_second(block, clock):
    counts = [SharedCounters.attach(block.fd, worker) for worker in range(3)]
    windows = [SharedSlidingWindow(each.claim("a"), clock) for each in counts]
    assert granted(windows[1], 10, tries=6) == 6
    clock.now += 1
    counts[0].set_siblings([0, 2])
    assert windows[0].used() == 0
    counts[0].set_siblings([0, 1, 2])
    assert granted(windows[0], 10) == 4


def test_more_than_a_field_holds_is_as_much_as_it_holds(windows):
    windows[0].add(1 << 40)
    assert windows[1].used() == (1 << 32) - 1


def test_what_a_dead_worker_had_is_forgotten(block, windows):
    assert granted(windows[0], 10, tries=4) == 4
    assert granted(windows[1], 10, tries=6) == 6
    block.clear_worker(1)
    assert granted(windows[2], 10) == 6


def test_waiting_as_long_as_told_is_long_enough_and_a_moment_less_is_not(windows, clock):
    rng = Random(1)
    for _ in range(300):
        clock.now += rng.random() * 3
        window = rng.choice(windows)
        if window.take(1, 20):
            continue
        told, _ = window.seconds_until(window.used() + 1 - 20)
        assert 0 < told <= 60
        clock.now += told - 0.001
        assert not rng.choice(windows).take(1, 20)
        clock.now += 0.001
        assert rng.choice(windows).take(1, 20)


def test_a_row_of_random_requests_is_granted_as_by_one_exact_list(windows, clock):
    """Against a model that keeps every moment."""
    rng, had = Random(2), []
    for _ in range(4000):
        clock.now += rng.expovariate(2.0)
        limit = rng.choice([60, 60, 60, 90])
        had = [second for second in had if second > int(clock.now) - 60]
        fits = len(had) < limit
        assert rng.choice(windows).take(1, limit) == fits
        if fits:
            had.append(int(clock.now))


def test_racing_processes_are_granted_exactly_the_limit(block):
    """Each as fast as it can, over the turn of some seconds of a clock that runs a hundred times as fast."""
    results = SharedCounters.attach(block.fd, 2).claim("results")
    limit, began = 20_000, time.monotonic()

    def clock():
        return (time.monotonic() - began) * 100 + 1000

    def claimer(worker):
        def run():
            counts = SharedCounters.attach(block.fd, worker)
            window, own = SharedSlidingWindow(counts.claim("a"), clock), counts.claim("results")
            granted = 0
            while clock() < 1058:
                granted += window.take(1, limit)
            own.write(0, granted)

        return run

    assert in_processes(claimer(0), claimer(1)) == [0, 0]
    assert results.siblings_sum(0) == limit
