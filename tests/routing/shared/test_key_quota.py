"""What a client key uses, over several workers of a host, as keys and limits come and go."""

import logging
import mmap
import time
from random import Random

import pytest

from routing.contract.table import KeyLimits
from routing.shared.key_quota import KeyCounts, KeyQuota
from routing.shared.key_quotas import KeyQuotas
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import CELL_FIELDS, SharedCounters
from tests.routing.shared.blocks import block_fixture
from tests.routing.shared.test_shm_counters import in_processes, wait_for

ALL = KeyLimits(id="web", requests_per_minute=10, max_concurrency=4, tokens_per_minute=1000)


block = block_fixture(workers=2, replicas=8)


@pytest.fixture
def workers(block):
    return [KeyQuotas(SharedCounters.attach(block.fd, worker), QuotaShare()) for worker in (0, 1)]


def uses(workers, limits):
    return [worker.of("a" * 64, limits) for worker in workers]


def begun(use, tries=100, reserved=0):
    """How many of so many requests are let in, and go on."""
    return [use.begin(reserved) for _ in range(tries)].count(None)


def used(use):
    return {status.limit: status.used for status in use.statuses()}


def test_concurrency_is_one_for_all_workers(workers):
    first, second = uses(workers, KeyLimits(id="web", max_concurrency=3))
    assert begun(first, tries=2) == 2
    assert begun(second) == 1
    first.end(0, 0)
    assert begun(second) == 1
    assert begun(first) == 0
    assert second.counts.limited_by == {"max_concurrency": 99 + 99}
    assert used(first) == used(second) == {"max_concurrency": 3}


def test_requests_are_one_for_all_workers(workers):
    first, second = uses(workers, KeyLimits(id="web", requests_per_minute=10))
    assert begun(first, tries=4) == 4
    for _ in range(4):
        first.end(0, 0)
    assert begun(second) == 6
    assert begun(first) == 0


def test_tokens_are_one_for_all_workers_and_reserved_ones_count(workers):
    first, second = uses(workers, KeyLimits(id="web", tokens_per_minute=1000))
    assert begun(first, tries=3, reserved=300) == 3
    assert begun(second, reserved=300) == 1
    assert begun(first, reserved=1) == 0
    for _ in range(3):
        first.end(300, 100)
    assert used(second) == {"tokens_per_minute": 600}
    second.end(300, 700)
    assert used(first) == {"tokens_per_minute": 1000}
    assert begun(first) == begun(second) == 0


def test_what_is_not_let_in_takes_nothing_of_any_limit(workers):
    first, second = uses(workers, ALL)
    assert begun(first, tries=4, reserved=10) == 4
    assert begun(second, reserved=10) == 0
    first.end(10, 0)
    assert used(second) == {"requests_per_minute": 4, "tokens_per_minute": 30, "max_concurrency": 3}
    for _ in range(3):
        first.end(10, 0)
    for _ in range(6):
        assert second.begin(10) is None
        second.end(10, 0)
    assert begun(first, reserved=10) == 0
    assert used(second) == {"requests_per_minute": 10, "tokens_per_minute": 0, "max_concurrency": 0}
    assert first.counts.limited_by == {"requests_per_minute": 100}


def test_the_limit_that_lasts_longest_is_the_one_that_is_told(workers):
    first, _ = uses(workers, ALL)
    for _ in range(10):
        assert first.begin(0) is None
        first.end(0, 1)
    assert begun(first, tries=4) == 0
    assert first.begin(0).by.limit == "requests_per_minute"


def test_cells_are_claimed_with_the_first_use_and_given_back_when_the_key_leaves(block, workers):
    first, _ = uses(workers, ALL)
    assert block.used() == 2
    assert begun(first, tries=1, reserved=7) == 1
    workers[0].follow([], {})
    assert block.used() == 2
    workers[1].follow(["a" * 64], {})
    assert block.used() == 0
    first.end(7, 5)
    assert first.counts.tokens == 5
    again = uses(workers, ALL)
    assert begun(again[1]) == 4
    assert workers[0].in_flight() == 0


def test_a_key_without_limits_takes_no_cells_and_is_counted(block, workers):
    first, _ = uses(workers, KeyLimits(id="web"))
    assert begun(first) == 100
    assert block.used() == 0
    assert (first.counts.requests, first.counts.in_flight) == (100, 100)


def test_limits_that_change_take_and_give_back_what_they_need(block, workers):
    first, second = uses(workers, KeyLimits(id="web", requests_per_minute=50))
    assert begun(first, tries=40) == 40
    for changed, slots in [
        (KeyLimits(id="web", requests_per_minute=50, max_concurrency=41), 1),
        (ALL, 2),
        (KeyLimits(id="web", tokens_per_minute=5), 1),
        (KeyLimits(id="web"), 0),
        (KeyLimits(id="web", max_concurrency=41), 1),
    ]:
        for worker in workers:
            worker.follow(["a" * 64], {"a" * 64: changed})
        assert block.used() == slots
    # Those in flight have been counted all along.
    assert begun(second) == 1


def test_a_full_block_is_logged_once_a_worker_and_each_worker_counts_for_itself(block, workers, caplog):
    held = [SharedCounters(block.fd, 0).claim(str(key)) for key in range(7)]
    with caplog.at_level(logging.WARNING):
        first, second = uses(workers, ALL)
        other = workers[0].of("b" * 64, KeyLimits(id="b", max_concurrency=1))
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "all 8 slots of the shared counts are taken" in caplog.text
    assert begun(other) == 1
    assert begun(first, tries=1, reserved=1000) == 1
    # Requests in flight still found a place in the block; tokens did not.
    assert begun(second) == 3
    workers[0].follow([], {})
    workers[1].follow([], {})
    assert block.used() == len(held)


def test_cells_cleared_by_mistake_are_claimed_again(block, workers):
    first, second = uses(workers, ALL)
    assert begun(first, tries=3, reserved=100) == 3
    block.clear_worker(0)
    assert used(second) == {"requests_per_minute": 0, "tokens_per_minute": 0, "max_concurrency": 0}
    (found,) = workers[0].report()
    assert found == first.counts.counters()
    assert used(second) == {"requests_per_minute": 0, "tokens_per_minute": 300, "max_concurrency": 3}
    assert begun(second) == 1


def test_a_dead_workers_requests_are_not_in_flight_any_more(block, workers):
    first, second = uses(workers, ALL)
    assert begun(first) == 4
    assert begun(second) == 0
    block.clear_worker(0)
    assert begun(second) == 4


def test_counters_of_a_key_that_came_back_go_on(workers):
    first, _ = uses(workers, ALL)
    assert begun(first, tries=2) == 2
    workers[0].follow([], {})
    assert workers[0].report() == []
    first.end(0, 3)
    first.end(0, 4)
    again, _ = uses([workers[0], workers[1]], ALL)
    assert again is not first
    (found,) = workers[0].report()
    assert (found.requests, found.in_flight, found.tokens) == (2, 0, 7)


def test_a_key_under_another_id_is_another_ones(workers):
    first, _ = uses(workers, ALL)
    assert begun(first, tries=1) == 1
    renamed = KeyLimits(id="shop", max_concurrency=1)
    workers[0].follow(["a" * 64], {"a" * 64: renamed})
    again = workers[0].of("a" * 64, renamed)
    assert begun(again, tries=2) == 1
    assert [found.id for found in workers[0].report()] == ["shop"]
    assert again.counts.requests == 2


class Clock:
    def __init__(self):
        self.now = 1000.5
        self.meanwhile = []

    def __call__(self):
        now = self.now
        while self.meanwhile:
            self.meanwhile.pop()()
        return now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timed(block, clock):
    """The same key in two workers, by this clock."""

    def make(limits):
        made = []
        for worker in (0, 1):
            claim = SharedCounters.attach(block.fd, worker).claim
            made.append(
                KeyQuota(KeyCounts("web"), lambda what, claim=claim: claim(f"web{what}"), QuotaShare(), clock)
            )
            made[-1].set_limits(limits)
        return made

    return make


def test_what_another_worker_had_in_a_second_that_is_over_counts(timed, clock):
    first, second = timed(KeyLimits(id="web", requests_per_minute=10, tokens_per_minute=10**6))
    assert begun(first, tries=1) == 1
    assert begun(second, tries=3) == 3
    clock.now += 1
    assert begun(first) == 6
    clock.now += 60
    assert begun(second) == 10


def test_nothing_is_granted_into_a_second_that_is_over(timed, clock):
    """By a worker that is held up between its look at the clock and its claim."""
    first, second = timed(KeyLimits(id="web", requests_per_minute=2))
    assert first.begin(0) is None

    def second_comes():
        clock.now += 1
        assert second.begin(0) is None

    clock.meanwhile.append(second_comes)
    assert first.begin(0) is not None


def test_a_prompt_is_estimated_by_its_bytes(timed):
    use, _ = timed(KeyLimits(id="web", tokens_per_minute=10))
    assert [use.estimate(length) for length in (-1, 0, 7, 8, 400, 1 << 40)] == [1, 1, 1, 2, 100, 16_384]
    use.set_limits(KeyLimits(id="web"))
    assert use.estimate(400) == 0


def test_a_claim_that_is_taken_back_meanwhile_is_in_nobodys_way(workers):
    first, second = uses(workers, ALL)

    class Interrupted(KeyQuota):
        __slots__ = ()

        def _publish(self):
            super()._publish()
            second.concurrency_cells.write(CELL_FIELDS - 1, 0)

    first.__class__ = Interrupted
    # The claims of one that is about to see that it was too late.
    second.concurrency_cells.write(CELL_FIELDS - 1, 4)
    assert first.begin(0) is None
    assert used(second) == {"requests_per_minute": 1, "tokens_per_minute": 0, "max_concurrency": 1}


def test_racing_processes_pass_none_of_a_keys_limits(block):
    """What was granted is counted apart from the claims, and never with hindsight."""
    limits = KeyLimits(id="web", max_concurrency=1, requests_per_minute=30_000, tokens_per_minute=10**9)
    granted = memoryview(mmap.mmap(-1, 4096)).cast("Q")

    def requester(worker):
        def run():
            counts = SharedCounters.attach(block.fd, worker)
            use = KeyQuotas(counts, QuotaShare()).of("a" * 64, limits)
            held = counts.claim("held")
            rng, end = Random(worker), time.monotonic() + 20
            granted[worker] = 1
            wait_for(lambda: granted[1 - worker])
            while time.monotonic() < end:
                excess = use.begin(1)
                if excess is None:
                    granted[worker] += 1
                    held.write(0, 1)
                    assert held.siblings_sum(0) == 0
                    for _ in range(rng.randrange(20)):
                        pass
                    held.write(0, 0)
                    use.end(1, 1)
                elif excess.by.limit == "requests_per_minute":
                    return
            raise AssertionError("the limit was never reached")

        return run

    assert in_processes(requester(0), requester(1)) == [0, 0]
    assert granted[0] + granted[1] - 2 == limits.requests_per_minute
