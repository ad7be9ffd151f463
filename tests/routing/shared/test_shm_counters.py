"""The shared block: between views in one process, and between real processes, one of them killed."""

import os
import signal
import time
import traceback
from contextlib import contextmanager
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.outlier import shared_ejection
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.shared.shm_counters import IN_FLIGHT, WORK, AlreadyHeld, CapacityExhausted, SharedCounters
from tests.routing.shared.blocks import block_fixture

block = block_fixture(workers=3, replicas=4)


def two_pools(block, make_snapshot, replicas, **policy):
    """The same fleet in two workers of a host."""
    snapshot = make_snapshot(replicas, **policy)
    return [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in (0, 1)]


# --- the block -----------------------------------------------------------------------------------


def test_the_same_key_is_the_same_slot_in_every_worker(block):
    first, second = (SharedCounters.attach(block.fd, worker) for worker in (0, 1))
    mine, other = first.claim("a"), second.claim("a")
    assert mine.slot == other.slot
    mine.write_counts(3, 4.5)
    assert other.siblings_max(IN_FLIGHT) == 3
    assert other.siblings_max(WORK) == 4.5
    assert mine.siblings_max(IN_FLIGHT) == 0


def test_a_slot_is_free_when_its_last_holder_has_left(block):
    first, second = (SharedCounters.attach(block.fd, worker) for worker in (0, 1))
    mine, other = first.claim("a"), second.claim("a")
    first.release(mine)
    assert block.used() == 1
    second.release(other)
    assert block.used() == 0
    again = next(cells for cells in map(first.claim, "bcda") if cells.slot == mine.slot)
    assert again.generation == mine.generation + 1


def test_releasing_empties_the_cells(block):
    first, second = (SharedCounters.attach(block.fd, worker) for worker in (0, 1))
    mine, other = first.claim("a"), second.claim("a")
    mine.write_counts(3, 4.5)
    first.release(mine)
    assert other.siblings_max(IN_FLIGHT) == other.siblings_max(WORK) == 0
    with pytest.raises(RuntimeError, match="not held"):
        first.release(mine)


def test_a_full_block_says_so(block):
    worker = SharedCounters.attach(block.fd, 0)
    for key in "abcd":
        worker.claim(key)
    with pytest.raises(CapacityExhausted, match="all 4 slots"):
        worker.claim("e")


def test_claiming_twice_is_an_error(block):
    worker = SharedCounters.attach(block.fd, 0)
    worker.claim("a")
    with pytest.raises(AlreadyHeld, match="already holds"):
        worker.claim("a")


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="65 workers"):
        SharedCounters.create(workers=65)
    with pytest.raises(ValueError, match="room for at least one"):
        SharedCounters.create(workers=1, replicas=0)


def test_another_file_is_not_taken_for_a_block(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, pytest.raises(ValueError, match="does not hold a block"):
        SharedCounters.attach(file.fileno(), 0)


def test_keys_are_found_among_others_that_came_and_went():
    """Two workers agree on every key's slot, whatever was released before, up to a full block."""
    block = SharedCounters.create(workers=2, replicas=64)
    workers = [SharedCounters.attach(block.fd, worker) for worker in (0, 1)]
    rng, held, names = Random(1), {}, iter(range(100_000))
    for _ in range(3000):
        if held and (len(held) == 64 or rng.random() < 0.49):
            for counts, cells in zip(workers, held.pop(rng.choice([*held])), strict=True):
                counts.release(cells)
        else:
            key = str(next(names))
            held[key] = one, other = [counts.claim(key) for counts in workers]
            assert one.slot == other.slot
    assert len({cells.slot for cells, _ in held.values()}) == block.used() == len(held)
    for key in held:
        with pytest.raises(AlreadyHeld):
            workers[0].claim(key)
    for pair in held.values():
        for counts, cells in zip(workers, pair, strict=True):
            counts.release(cells)
    assert block.used() == 0
    assert not any(block._chains)
    block.close()
    os.close(block.fd)


def test_a_claim_among_ten_thousand_looks_at_few_entries():
    block = SharedCounters.create(workers=1)
    worker = SharedCounters.attach(block.fd, 0)
    for key in range(10_000):
        worker.claim(str(key))

    class Counted:
        looks = 0

        def __getitem__(self, at):
            self.looks += 1
            return block._directory[at]

    worker._directory = Counted()
    for key in range(100):
        assert worker._find(key << 40, key) == -1
        assert worker._free() >= 10_000
    assert Counted.looks == 0
    assert worker._directory.looks < 1000
    block.close()
    os.close(block.fd)


def test_a_worker_killed_before_its_slot_was_in_a_chain_leaves_it_free(block):
    worker = SharedCounters.attach(block.fd, 1)
    # What claim() has written when its last step is still to come.
    for slot in range(4):
        worker._directory[slot * 5 + 3] = 0b10
    assert block.used() == 4
    block.clear_worker(1)
    other = SharedCounters.attach(block.fd, 0)
    assert len({other.claim(key).slot for key in "abcd"}) == 4


# --- what pools do with it -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["least_connections", "least_expected_work"])
def test_workers_see_each_others_load(block, make_snapshot, strategy):
    one, two = two_pools(block, make_snapshot, 2, strategy=strategy)
    held = [one.begin(1.0, 1.0) for _ in range(10)]
    busy = held[0].replica.name
    for attempt in held[1:]:
        attempt.settle(Outcome.CANCELLED, 1.1)
    assert two.begin(1.0, 1.2).replica.name != busy


@pytest.mark.parametrize(("replicas", "old_ms", "new_ms"), [(4, 0.4, 0.6), (200, 2.7, 3.3)])
def test_others_counts_are_read_so_often_that_it_costs_little(make_snapshot, replicas, old_ms, new_ms):
    block = SharedCounters.create(workers=2, replicas=512)
    one, two = two_pools(block, make_snapshot, replicas)
    held = [one.begin(1.0, 1.01) for _ in range(10)]

    def seen(ms):
        two.begin(1.0, 1.011 + ms / 1000)
        return sum(replica.peer_in_flight for replica in two.replicas)

    two.begin(1.0, 1.011)
    before = seen(0.0)
    held[0].settle(Outcome.SUCCESS, 1.0111)
    assert seen(old_ms) == before
    assert seen(new_ms) == before - 1


def test_a_full_block_means_own_counts_and_no_lost_request(block, make_snapshot, send):
    one, two = two_pools(block, make_snapshot, 6)
    assert [replica.cells is not None for replica in one.replicas] == [True] * 4 + [False] * 2
    assert len({send(pool, 1.0 + i * 0.01) for i in range(200) for pool in (one, two)}) == 6


def test_an_ejection_holds_in_every_worker(block, make_snapshot, fail, send):
    one, two = two_pools(block, make_snapshot, 3, strategy="round_robin")
    fail(one, "r0", 5, 1.0)
    assert "r0" not in {send(two, 1.2 + i * 0.001) for i in range(50)}
    assert "another worker" in two.explain(1.3)[0].reasons[0]


def test_one_probe_request_a_host_decides_for_all(block, make_snapshot, fail, send):
    one, two = two_pools(block, make_snapshot, 3, strategy="round_robin")
    fail(one, "r0", 5, 1.0)
    two.refresh(1.1)
    ends = one.replicas[0].ejection.until
    probe = two.begin(1.0, ends)
    assert probe.replica.name == "r0"
    assert "r0" not in {send(one, ends + 0.01 * i) for i in range(30)}
    probe.settle(Outcome.SUCCESS, ends + 0.5)
    assert all(explained.eligible for pool in (one, two) for explained in pool.explain(ends + 0.6))
    assert "r0" in {send(one, ends + 0.7) for _ in range(3)}
    assert "r0" in {send(two, ends + 0.7) for _ in range(3)}


def test_a_failed_probe_ejects_for_all_and_longer(block, make_snapshot, fail, send):
    one, two = two_pools(block, make_snapshot, 3, strategy="round_robin")
    fail(one, "r0", 5, 1.0)
    two.refresh(1.1)
    ends = one.replicas[0].ejection.until
    two.begin(1.0, ends).settle(Outcome.FAILED, ends)
    assert 8.0 <= two.replicas[0].ejection.lasted_s <= 12.0
    assert "r0" not in {send(one, ends + 0.2 + 0.01 * i) for i in range(50)}


def test_the_limit_on_ejections_is_the_hosts(block, make_snapshot, fail):
    one, two = two_pools(block, make_snapshot, 4, strategy="round_robin")
    fail(one, "r0", 5, 1.0)
    fail(two, "r1", 5, 1.0)
    fail(two, "r2", 5, 1.01)
    fail(one, "r3", 5, 1.01)
    for pool in (one, two):
        pool.refresh(1.2)
        out = [replica.name for replica in pool.replicas if replica.ejection.until]
        assert out == ["r0", "r1"]


def test_two_claims_at_once_stay_within_the_limit(block, make_snapshot, fail):
    """The second worker ejects just after the first has looked and before it has written."""

    class Interloper(Random):
        between = None

        def random(self):
            between, self.between = self.between, None
            if between is not None:
                between()
            return super().random()

    snapshot, rng = make_snapshot(2, strategy="round_robin"), Interloper(1)
    one = Pool(snapshot, SharedCounters.attach(block.fd, 0), rng)
    two = Pool(snapshot, SharedCounters.attach(block.fd, 1), Random(2))
    fail(one, "r0", 4, 1.0)
    two.refresh(1.0)
    last = one.begin(1.0, 1.01)
    while last.replica.name != "r0":
        last.settle(Outcome.CANCELLED, 1.01)
        last = one.begin(1.0, 1.01)
    rng.between = lambda: fail(two, "r1", 5, 1.02)
    last.settle(Outcome.FAILED, 1.02)
    assert rng.between is None
    for pool in (one, two):
        pool.refresh(1.2)
        assert [replica.name for replica in pool.replicas if replica.ejection.until] == ["r1"]


def test_what_one_worker_learns_the_other_knows(block, make_snapshot):
    one, two = two_pools(block, make_snapshot, 2, strategy="round_robin")
    for i in range(100):
        now = 1.0 + i * 0.05
        attempt = one.begin(1.0, now)
        attempt.settle(Outcome.SUCCESS, now + (0.4 if attempt.replica.name == "r0" else 0.1))
    one.refresh(6.2)
    two.refresh(6.3)
    slow, fast = (replica.seconds_per_work for replica in two.replicas)
    assert slow > 3 * fast


def test_cells_cleared_by_mistake_are_claimed_again(block, make_snapshot):
    one, two = two_pools(block, make_snapshot, 1)
    attempt = one.begin(1.0, 1.0)
    block.clear_worker(0)
    one.refresh(1.2)
    two.refresh(1.3)
    assert two.replicas[0].load == 1
    attempt.settle(Outcome.SUCCESS, 1.4)
    two.refresh(1.5)
    assert two.replicas[0].load == 0


# --- real processes ------------------------------------------------------------------------------


def fork(child):
    """Start ``child()`` in a process of its own, which exits with 0 if it returned; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        child()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@contextmanager
def forked(child):
    """A process that is killed at the end of the block."""
    pid = fork(child)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def in_processes(*children):
    """Run all at the same time; their exit codes."""
    pids = [fork(child) for child in children]
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def sum_at_one_moment(cells, field):
    """Over all workers. Their cells are read one after the other, so what one gives back and another takes
    meanwhile may be counted twice: only two equal readings in a row are of one moment."""
    places, reading = [cells.own, *cells.siblings], []
    while True:
        before, reading = reading, [cells.view[place + field] for place in places]
        if reading == before:
            return sum(reading)


def wait_for(condition, limit_s=20.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def test_a_killed_workers_load_is_seen_then_cleared(block, make_snapshot):
    snapshot = make_snapshot(2)

    def worker():
        pool = Pool(snapshot, SharedCounters.attach(block.fd, 1), Random(1))
        held = [pool.begin(1.0, 1.0) for _ in range(6)]
        signal.pause()
        held.clear()

    survivor = Pool(snapshot, SharedCounters.attach(block.fd, 0), Random(0))

    def load():
        survivor.refresh(time.monotonic())
        return sum(replica.load for replica in survivor.replicas)

    with forked(worker):
        wait_for(lambda: load() == 6)
    assert load() == 6
    block.clear_worker(1)
    assert load() == 0
    # Two replicas, and what the host knows of the fleet.
    assert block.used() == 3


def test_a_worker_killed_while_it_holds_the_lock_blocks_nobody(block):
    def worker():
        counts = SharedCounters.attach(block.fd, 1)
        counts.claim("a")
        with counts._locked():
            counts._view[0] = 42.0
            signal.pause()

    with forked(worker):
        wait_for(lambda: block._view[0] == 42.0)
    other = SharedCounters.attach(block.fd, 0)
    assert other.claim("b").slot != other.claim("a").slot


def test_claims_of_racing_processes_agree(block):
    """Two processes claim and release the same keys at once; slots never mix and none is left over."""
    keys = ["a", "b", "c", "d"]

    def churn(worker):
        def run():
            counts, rng = SharedCounters.attach(block.fd, worker), Random(worker)
            for _ in range(300):
                held = [counts.claim(key) for key in rng.sample(keys, 4)]
                assert len({cells.slot for cells in held}) == 4
                for cells in held:
                    cells.write_counts(worker, 1.0)
                    counts.release(cells)

        return run

    assert in_processes(churn(0), churn(1), churn(2)) == [0, 0, 0]
    assert block.used() == 0
    assert not any(block._view)


def test_never_two_probe_requests_at_once(block, make_spec):
    """Two processes claim the probe as fast as they can; while one has it the other never does."""

    def claimer(worker):
        def run():
            replica = Replica(make_spec(0))
            replica.cells = cells = SharedCounters.attach(block.fd, worker).claim("a")
            granted, end = 0, time.monotonic() + 20
            while granted < 500 and time.monotonic() < end:
                if shared_ejection.claim_probe(replica, 1.0):
                    granted += 1
                    cells.write(IN_FLIGHT, 1)
                    assert not cells.siblings_max(IN_FLIGHT)
                    cells.write(IN_FLIGHT, 0)
                    shared_ejection.release_probe(replica)
            assert granted == 500

        return run

    assert in_processes(claimer(0), claimer(1)) == [0, 0]


def test_only_workers_that_are_there_are_summed(block):
    """A block has room for more workers than run; who comes and goes is told while cells are held."""
    first, second, third = (SharedCounters.attach(block.fd, worker) for worker in (0, 1, 2))
    mine, *others = [worker.claim("a") for worker in (first, second, third)]
    for cells in others:
        cells.write_counts(2, 1.0)
    assert mine.siblings_sum(IN_FLIGHT) == 4
    first.set_siblings([0, 1])
    assert mine.siblings_sum(IN_FLIGHT) == 2
    assert first.claim("b").siblings_sum(IN_FLIGHT) == 0
    first.set_siblings([0])
    assert (mine.siblings, mine.siblings_max(IN_FLIGHT)) == ((), 0)
    first.set_siblings([0, 1, 2])
    assert mine.siblings_sum(IN_FLIGHT) == 4


def test_a_lone_worker_begins_to_see_its_successor_and_forgets_it(block, make_snapshot):
    shared = SharedCounters.attach(block.fd, 0)
    shared.set_siblings([0])
    pool = Pool(make_snapshot([{}]), shared, Random(1))
    now = time.monotonic()
    pool.refresh(now)
    successor = Pool(make_snapshot([{}]), SharedCounters.attach(block.fd, 1), Random(2))
    successor.begin(1.0, now)
    pool.refresh(now + 1)
    assert pool.replicas[0].load == 0
    shared.set_siblings([0, 1])
    pool.refresh(now + 2)
    assert pool.replicas[0].load == 1
    shared.set_siblings([0])
    pool.refresh(now + 3)
    assert pool.replicas[0].load == 0


def test_workers_together_find_a_replica_that_fails_often(make_snapshot):
    """Each has too few answers of it, and never five failures in a row; once back, none ejects it again."""
    block = SharedCounters.create(workers=4, replicas=8)
    snapshot = make_snapshot(3, strategy="round_robin", slow_start_s=0)
    pools = [Pool(snapshot, SharedCounters.attach(block.fd, worker), Random(worker)) for worker in range(4)]
    failed = [0] * 4
    for i in range(144):
        now, pool = 20.0 + i * 0.1, pools[i % 4]
        pool._pick = lambda found, *_, at=i // 4 % 3: found[min(at, len(found) - 1)]
        attempt = pool.begin(1.0, now)
        bad = attempt.replica.name == "r0"
        failed[i % 4] += bad
        attempt.settle(Outcome.FAILED if bad and failed[i % 4] % 4 else Outcome.SUCCESS, now)
    assert max(failed) < 20
    for pool in pools:
        pool.refresh(now + 0.2)
    assert [bool(pool.replicas[0].ejection.until) for pool in pools] == [True] * 4
    ends = pools[0].replicas[0].ejection.until
    for pool in pools:
        pool.refresh(ends)
        probe = pool.begin(1.0, ends)
        probe.settle(Outcome.SUCCESS, ends)
    for later in (0.2, 0.4, 0.6):
        for pool in pools:
            pool.refresh(ends + later)
    assert [bool(pool.replicas[0].ejection.until) for pool in pools] == [False] * 4
    os.close(block.fd)
