"""Failures in a row that the workers of a host have seen between them."""

from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.client_source import ClientSource
from routing.shared.shm_counters import SharedCounters
from tests.routing.shared.blocks import block_fixture

WORKERS = 4


block = block_fixture(workers=WORKERS, replicas=16)


@pytest.fixture
def workers(block, make_snapshot):
    snapshot = make_snapshot(4, strategy="round_robin")
    return [
        Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in range(WORKERS)
    ]


class Traffic:
    """Requests that go from worker to worker, one each half second, all of them to ``r0``."""

    def __init__(self, workers):
        self.workers = workers
        self.now = 1.0
        self.sent = 0

    def send(self, failed=True, client=None, outcome=Outcome.FAILED, worker=None):
        pool = self.workers[self.sent % WORKERS if worker is None else worker]
        self.sent += 1
        self.now += 0.5
        pool._pick = lambda found, *_: next((one for one in found if one.name == "r0"), found[0])
        attempt = pool.begin(1.0, self.now)
        attempt.source = ClientSource(client or 100 + self.sent, 1000 + self.sent)
        attempt.settle(outcome if failed else Outcome.SUCCESS, self.now + 0.01)

    def is_out(self):
        for pool in self.workers:
            pool.refresh(self.now + 0.2)
        return [bool(pool.replicas[0].ejection.until) for pool in self.workers] == [True] * WORKERS

    def failures_until_out(self, **how):
        for failures in range(1, 40):
            self.send(**how)
            if self.is_out():
                return failures
        return None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REFUSED])
def test_five_in_the_whole_host_eject(workers, outcome):
    traffic = Traffic(workers)
    assert traffic.failures_until_out(outcome=outcome) == 5
    assert "5 failures in a row in the workers of this host" in {
        pool.replicas[0].ejection.reason for pool in workers
    }


def test_so_they_do_after_answers(workers):
    """The others' last answers are seen late, which costs a failure or two. It was seventeen where each
    counted for itself."""
    traffic = Traffic(workers)
    for _ in range(40):
        traffic.send(failed=False)
    assert traffic.failures_until_out() <= 7


def test_an_answer_to_any_worker_breaks_the_row(workers):
    traffic = Traffic(workers)
    for i in range(60):
        traffic.send(failed=i % 5 != 4)
        assert not traffic.is_out()


def test_an_answer_to_a_worker_that_has_seen_no_failure_breaks_it_too(workers):
    traffic = Traffic(workers)
    for i in range(32):
        traffic.send(worker=i % 3)
        if i % 4 == 3:
            traffic.send(failed=False, worker=3)
        if traffic.is_out():
            break
    # Only by five in a row of one worker.
    assert max(pool.replicas[0].ejection.failure_run.judged for pool in workers) == 0


def test_an_answer_counts_at_once_in_a_worker_that_has_seen_failures(workers):
    traffic = Traffic(workers)
    for _ in range(3):
        traffic.send(worker=0)
    traffic.send(worker=1)
    for pool in workers[:2]:
        pool.refresh(traffic.now + 0.1)
    traffic.send(worker=0, failed=False)
    for _ in range(4):
        traffic.send(worker=2)
    for pool in reversed(workers):
        pool.refresh(traffic.now + 0.2)
    assert not any(pool.replicas[0].ejection.until for pool in workers)


def test_one_client_alone_ejects_nobody_by_it(workers):
    traffic = Traffic(workers)
    assert traffic.failures_until_out(client=7) > WORKERS * 4


@pytest.mark.parametrize("is_seen_to_succeed", [False, True])
def test_nor_do_clients_that_fail_elsewhere_too(workers, is_seen_to_succeed):
    traffic = Traffic(workers)
    suspects = (7, 8)
    for name in ("r1", "r2"):
        for client in suspects:
            attempt = workers[0].begin(1.0, traffic.now)
            attempt.replica = next(one for one in workers[0].replicas if one.name == name)
            workers[0]._outlier_detector._note(
                ClientSource(client, 1000 + client), attempt.replica, traffic.now
            )
            attempt.settle(Outcome.CANCELLED, traffic.now)
    if is_seen_to_succeed:
        for pool in workers:
            pool.refresh(traffic.now + 0.1)
            for client in suspects:
                pool._outlier_detector.succeeded(ClientSource(client, 1), pool.replicas[3], traffic.now + 0.2)
    for i in range(40):
        traffic.send(client=suspects[i % 2])
        traffic.is_out()
        assert not any(pool.replicas[0].ejection.failure_run.judged for pool in workers)


def test_a_row_that_sets_back_is_not_judged_again_and_again(block, make_snapshot):
    snapshot = make_snapshot(4, strategy="round_robin", ejection={"max_ejected_percent": 0})
    shared = [SharedCounters.attach(block.fd, worker) for worker in range(WORKERS)]
    traffic = Traffic([Pool(snapshot, counts, Random(1)) for counts in shared])
    for _ in range(6):
        traffic.send()
        traffic.is_out()
    traffic.is_out()
    traffic.now += 3.0
    set_back = [pool.replicas[0].ejection.soft_until > traffic.now for pool in traffic.workers]
    assert any(set_back)
    traffic.now += 3.0
    traffic.is_out()
    assert not any(pool.replicas[0].ejection.soft_until for pool in traffic.workers)
