"""Leases of memory on devices that replicas share: granted, refused in words, given back on every way out."""

import os
import signal
from random import Random

import pytest

from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.attempt.tunnel import TunnelAttempt
from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.pool import ANY_SLOT, Rejection
from routing.balancing.pool.table import Table
from routing.contract.policy import Policy
from routing.contract.table import AcceleratorSpec, FleetSnapshot, Manifest
from routing.shared.shm_counters import SharedCounters
from tests.routing.balancing.conftest import spec_of
from tests.routing.shared.blocks import block_fixture
from tests.routing.shared.test_shm_counters import forked, wait_for

GIB = 1 << 30
GPU0 = AcceleratorSpec(name="n1/gpu0", memory_bytes=10 * GIB, headroom_percent=10)
"""Lends 9 GiB, less what is held."""
GPU1 = AcceleratorSpec(name="n1/gpu1", memory_bytes=10 * GIB, headroom_percent=10)
ON_GPU0 = {"accelerators": ["n1/gpu0"], "memory_bytes": GIB, "request_bytes": 2 * GIB}


def fleet(name="llm", replicas=(ON_GPU0,), version=1, **policy):
    return FleetSnapshot(
        epoch=1,
        version=version,
        revision=1,
        name=name,
        protocol="generic",
        policy=Policy(strategy="round_robin", slow_start_s=0, **policy),
        replicas=[
            spec_of(number, uid=f"{name}/{number}", **changes) for number, changes in enumerate(replicas)
        ],
    )


def table(*fleets, devices=(GPU0, GPU1), shared=None, version=1):
    made = Table(shared, Random(1))
    made.apply_manifest(manifest(*fleets, devices=devices, version=version))
    for one in fleets:
        made.apply_snapshot(one)
    return made


def manifest(*fleets, devices=(GPU0, GPU1), version=1):
    names = dict.fromkeys((one.name for one in fleets), 1)
    return Manifest(epoch=1, version=version, fleets=names, accelerators=list(devices))


def begin_all(pool, work=1.0):
    """As many as get a lease, and the refusal of the next one."""
    begun = []
    while isinstance(attempt := pool.begin(work, 1.0), Attempt):
        begun.append(attempt)
        assert len(begun) < 100
    return begun, attempt


def leased(table):
    return {counters.name: counters.leased_bytes for counters in table.memory.counters()}


block = block_fixture(workers=2, replicas=16)


# --- what fits -----------------------------------------------------------------------------------


def test_a_device_lends_its_size_less_headroom_and_what_is_held():
    pool = table(fleet()).fleets["llm"]
    begun, refusal = begin_all(pool)
    assert len(begun) == 4  # 9 GiB − 1 GiB held, 2 GiB each
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (503, "memory_short", 1.0)
    assert refusal.message == (
        "no replica of fleet llm has the memory for the request: r0: its device n1/gpu0 has 0 bytes free "
        "for leases, the request needs 2 GiB"
    )
    begun[0].settle(Outcome.SUCCESS, 2.0)
    assert isinstance(pool.begin(1.0, 2.0), Attempt)


def test_all_fleets_of_the_table_share_a_device():
    both = table(fleet("llm"), fleet("small", [ON_GPU0 | {"memory_bytes": 2 * GIB, "request_bytes": GIB}]))
    llm, small = both.fleets["llm"], both.fleets["small"]
    begun, _ = begin_all(small)
    assert len(begun) == 6  # 9 GiB − 1 GiB − 2 GiB
    assert isinstance(llm.begin(1.0, 1.0), Rejection)
    begun[0].settle(Outcome.SUCCESS, 2.0)
    assert isinstance(llm.begin(1.0, 1.0), Rejection)
    begun[1].settle(Outcome.SUCCESS, 2.0)
    assert isinstance(llm.begin(1.0, 1.0), Attempt)
    assert leased(both) == {"n1/gpu0": 6 * GIB, "n1/gpu1": 0}


def test_a_request_leases_by_its_work():
    by_work = {"accelerators": ["n1/gpu0"], "request_bytes": GIB, "request_bytes_per_work": GIB / 2}
    pool = (whole := table(fleet(replicas=[by_work]))).fleets["llm"]
    attempt = pool.begin(4.0, 1.0)
    assert leased(whole)["n1/gpu0"] == 3 * GIB
    refusal = pool.begin(13.0, 1.0)
    assert refusal.message.endswith("n1/gpu0 has 6 GiB free for leases, the request needs 7.5 GiB")
    attempt.settle(Outcome.SUCCESS, 2.0)
    assert leased(whole)["n1/gpu0"] == 0


def test_a_request_leases_on_all_devices_of_the_replica_or_on_none():
    on_both = ON_GPU0 | {"accelerators": ["n1/gpu0", "n1/gpu1"]}
    filler = {"accelerators": ["n1/gpu1"], "request_bytes": 7 * GIB}
    whole = table(fleet("wide", [on_both]), fleet("filler", [filler]))
    filling = whole.fleets["filler"].begin(1.0, 1.0)
    refusal = whole.fleets["wide"].begin(1.0, 1.0)
    assert "its device n1/gpu1 has 1 GiB free for leases" in refusal.message
    assert leased(whole) == {"n1/gpu0": 0, "n1/gpu1": 7 * GIB}
    filling.settle(Outcome.SUCCESS, 1.0)
    attempt = whole.fleets["wide"].begin(1.0, 1.0)
    assert leased(whole) == {"n1/gpu0": 2 * GIB, "n1/gpu1": 2 * GIB}
    attempt.settle(Outcome.SUCCESS, 1.0)
    assert leased(whole) == {"n1/gpu0": 0, "n1/gpu1": 0}


def test_memory_is_not_kept_where_there_is_no_place():
    pool = (whole := table(fleet(replicas=[ON_GPU0 | {"max_concurrency": 1}]))).fleets["llm"]
    begun, refusal = begin_all(pool)
    assert (len(begun), refusal.code) == (1, "busy")
    assert leased(whole)["n1/gpu0"] == 2 * GIB


def test_a_replica_without_memory_is_passed_over_for_another():
    on_gpu1 = ON_GPU0 | {"accelerators": ["n1/gpu1"]}
    whole = table(fleet(replicas=[ON_GPU0, on_gpu1, {"weight": 0.5}]))
    pool = whole.fleets["llm"]
    begun = [pool.begin(1.0, 1.0) for _ in range(20)]
    names = [attempt.replica.name for attempt in begun]
    assert [names.count(f"r{number}") for number in range(3)] == [4, 4, 12]
    assert {counters.name: counters.lease_waits > 0 for counters in whole.memory.counters()} == {
        "n1/gpu0": True,
        "n1/gpu1": True,
    }


def test_who_waits_is_counted_once_a_device():
    whole = table(fleet(replicas=[ON_GPU0, ON_GPU0]))
    pool = whole.fleets["llm"]
    begun, _ = begin_all(pool)
    assert len(begun) == 3
    assert [counters.lease_waits for counters in whole.memory.counters()] == [1, 0]


# --- what never fits -----------------------------------------------------------------------------


def test_a_request_that_never_fits_is_refused_at_once_and_in_words():
    small = AcceleratorSpec(name="n1/gpu0", memory_bytes=2 * GIB, headroom_percent=0)
    pool = table(fleet(), devices=[small]).fleets["llm"]
    refusal = pool.begin(1.0, 1.0)
    assert (refusal.code, refusal.retry_after_s) == ("memory_never", None)
    assert refusal.message == (
        "no replica of fleet llm has the memory for the request: r0: its device n1/gpu0 can lend 1 GiB at "
        "most, the request needs 2 GiB"
    )


def test_a_request_that_fits_at_a_replica_that_is_out_may_come_back():
    small = AcceleratorSpec(name="n1/gpu0", memory_bytes=2 * GIB, headroom_percent=0)
    out = {"admin_state": "draining", "accelerators": ["n1/gpu1"], "request_bytes": GIB}
    pool = table(fleet(replicas=[ON_GPU0, out]), devices=[small, GPU1]).fleets["llm"]
    assert pool.begin(1.0, 1.0).code == "memory_short"


def test_several_proxies_share_a_device_out():
    whole = table(fleet())
    whole.quota_share.set(0, 2)
    begun, _ = begin_all(whole.fleets["llm"])
    assert len(begun) == 2  # half of 8 GiB
    whole.quota_share.set(0, 5)
    refusal = whole.fleets["llm"].begin(1.0, 1.0)
    assert refusal.code == "memory_never"
    assert "can lend 1.6 GiB at most as this proxy's part, the request needs 2 GiB" in refusal.message


# --- every way out -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_end_gives_the_lease_back_once(outcome):
    whole = table(fleet())
    attempt, other = (whole.fleets["llm"].begin(1.0, 1.0) for _ in range(2))
    attempt.settle(outcome, 2.0)
    assert leased(whole)["n1/gpu0"] == 2 * GIB
    with pytest.raises(RuntimeError, match="twice"):
        attempt.settle(outcome, 2.0)
    assert leased(whole)["n1/gpu0"] == 2 * GIB
    other.settle(outcome, 2.0)
    assert leased(whole)["n1/gpu0"] == 0


def test_a_tunnel_holds_the_lease_of_its_request_until_it_is_closed():
    whole = table(fleet())
    tunnel = TunnelAttempt(whole.fleets["llm"].begin(1.0, 1.0), 1.0)
    assert leased(whole)["n1/gpu0"] == 2 * GIB
    tunnel.settle(Outcome.SUCCESS, 2.0)
    assert leased(whole)["n1/gpu0"] == 0


def test_the_one_request_that_probes_an_ejected_replica_needs_a_lease_too(fail):
    filler = {"accelerators": ["n1/gpu0"], "request_bytes": 8 * GIB}
    whole = table(
        fleet(replicas=[{}, ON_GPU0 | {"memory_bytes": 0}]),
        fleet("filler", [filler]),
    )
    pool = whole.fleets["llm"]
    fail(pool, "r1", 5, 1.0)
    filling = whole.fleets["filler"].begin(1.0, 2.0)
    assert {pool.begin(1.0, 300.0).replica.name for _ in range(4)} == {"r0"}
    filling.settle(Outcome.SUCCESS, 300.0)
    probe = pool.begin(1.0, 300.0)
    assert (probe.replica.name, probe.probe) == ("r1", True)
    assert leased(whole)["n1/gpu0"] == 2 * GIB
    probe.settle(Outcome.CANCELLED, 301.0)
    assert leased(whole)["n1/gpu0"] == 0


def test_a_request_that_only_one_replica_can_serve_leases_there():
    whole = table(fleet(replicas=[ON_GPU0, {}]))
    pool = whole.fleets["llm"]
    only = PinnedReplica("llm/0", "r0", "response x", only_finishes=False)
    begun = [pool.begin_pinned(only, 1.0, 1.0) for _ in range(4)]
    assert leased(whole)["n1/gpu0"] == 8 * GIB
    assert pool.begin_pinned(only, 1.0, 1.0).code == "memory_short"
    for attempt in begun:
        attempt.settle(Outcome.SUCCESS, 1.0)
    assert leased(whole)["n1/gpu0"] == 0


def test_usual_replicas_keep_no_books():
    unleased = [{}, {"accelerators": ["n1/gpu0"], "memory_bytes": GIB}, {"request_bytes": GIB}]
    assert [one.memory for one in table(fleet(replicas=unleased)).fleets["llm"].replicas] == [None] * 3


# --- tables change -------------------------------------------------------------------------------


def test_a_new_table_changes_what_can_be_leased_and_forgets_nothing_that_is():
    whole = table(fleet())
    pool = whole.fleets["llm"]
    attempt = pool.begin(1.0, 1.0)
    whole.apply_snapshot(fleet(replicas=[ON_GPU0 | {"request_bytes": 3 * GIB}], version=2))
    later, _ = begin_all(pool)
    assert len(later) == 2  # 8 GiB − 2 GiB of the first
    attempt.settle(Outcome.SUCCESS, 2.0)
    assert leased(whole)["n1/gpu0"] == 6 * GIB
    whole.apply_manifest(manifest(fleet(), devices=[GPU1], version=2))
    assert isinstance(pool.begin(1.0, 3.0), Attempt)  # nothing is known of the device's size


def test_another_fleets_weights_come_and_go_with_it():
    whole = table(fleet())
    pool = whole.fleets["llm"]
    heavy = fleet("heavy", [ON_GPU0 | {"memory_bytes": 7 * GIB}])
    whole.apply_manifest(manifest(fleet(), heavy, version=2))
    whole.apply_snapshot(heavy)
    assert pool.begin(1.0, 1.0).code == "memory_never"
    whole.apply_manifest(manifest(fleet(), version=3))
    assert isinstance(pool.begin(1.0, 1.0), Attempt)


def test_a_replica_that_leaves_or_stops_leasing_gives_back_what_it_had():
    whole = table(fleet(replicas=[ON_GPU0, ON_GPU0 | {"url": "http://10.0.0.9"}]))
    pool = whole.fleets["llm"]
    attempts = [pool.begin(1.0, 1.0) for _ in range(2)]
    whole.apply_snapshot(fleet(replicas=[{}], version=2))
    assert leased(whole) == {"n1/gpu0": 4 * GIB, "n1/gpu1": 0}
    attempts.append(pool.begin(1.0, 1.0))
    for attempt in attempts:
        attempt.settle(Outcome.SUCCESS, 2.0)
    assert leased(whole) == {"n1/gpu0": 0, "n1/gpu1": 0}
    whole.apply_snapshot(fleet(replicas=[{}], version=3))
    assert [replica.memory for replica in pool.replicas] == [None]


def test_a_device_that_nobody_names_is_forgotten_with_its_last_lease(block):
    whole = table(fleet(), devices=[GPU0], shared=SharedCounters.attach(block.fd, 0))
    attempt = whole.fleets["llm"].begin(1.0, 1.0)
    whole.apply_manifest(manifest(devices=[], version=2))
    assert leased(whole) == {"n1/gpu0": 2 * GIB}
    attempt.settle(Outcome.SUCCESS, 2.0)
    assert leased(whole) == {}
    assert block.used() == 0


# --- several workers -----------------------------------------------------------------------------


def test_workers_of_a_host_lease_from_one_device(block):
    first, second = (table(fleet(), shared=SharedCounters.attach(block.fd, worker)) for worker in (0, 1))
    begun, _ = begin_all(first.fleets["llm"])
    assert len(begun) == 4
    refusal = second.fleets["llm"].begin(1.0, 1.0)
    assert "has 0 bytes free for leases" in refusal.message
    begun.pop().settle(Outcome.SUCCESS, 2.0)
    assert isinstance(second.fleets["llm"].begin(1.0, 2.0), Attempt)
    assert (leased(first)["n1/gpu0"], leased(second)["n1/gpu0"]) == (6 * GIB, 2 * GIB)


def test_memory_is_kept_free_in_all_workers_for_one_that_has_waited_long(block):
    both = fleet("f"), fleet("g", [ON_GPU0 | {"request_bytes": 6 * GIB}])
    first, second = (table(*both, shared=SharedCounters.attach(block.fd, worker)) for worker in (0, 1))
    told, tickets = Told(), []
    attempt = first.fleets["f"].begin(1.0, 1.0)
    for whole, since in ((first, 5.0), (second, 4.0)):
        ticket = Ticket(told, rank=1, since=since, deadline=11.0)
        refusal = whole.fleets["g"].begin(1.0, 9.0, turn=ANY_SLOT, since=since)
        assert refusal.code == "memory_short"
        whole.fleets["g"].admission.join(ticket, refusal.preferred, 5.0)
        whole.fleets["g"].admission.keep_memory(ticket, 5.0)  # not half of its time
        assert not ticket.reserved
        whole.fleets["g"].admission.keep_memory(ticket, 9.0)
        tickets.append(ticket)
    for whole in (first, second):
        refusal = whole.fleets["f"].begin(1.0, 9.0)
        assert "n1/gpu0 has 0 bytes free for leases" in refusal.message
    attempt.settle(Outcome.SUCCESS, 9.0)
    assert isinstance(first.fleets["f"].begin(1.0, 9.0), Rejection)
    assert isinstance(first.fleets["g"].begin(1.0, 9.0, turn=ANY_SLOT, since=5.0), Rejection)
    eldest = second.fleets["g"].begin(1.0, 9.0, turn=ANY_SLOT, since=4.0)
    assert isinstance(eldest, Attempt)
    second.fleets["g"].admission.found(tickets[1], 9.0)
    first.fleets["g"].admission.leave(tickets[0])
    eldest.settle(Outcome.SUCCESS, 9.0)
    assert isinstance(first.fleets["f"].begin(1.0, 9.0), Attempt)


class Told:
    """A caller, and a waiter that finds nothing."""

    def __init__(self):
        self.woken = []

    def serve_soon(self, admission):
        pass

    def wake(self, worker):
        self.woken.append(worker)

    def admit(self, now, patient):
        return False


def test_memory_that_one_fleet_frees_wakes_the_worker_in_which_another_waits(block):
    both = fleet("f"), fleet("g", [ON_GPU0 | {"request_bytes": 6 * GIB}])
    first, second = (table(*both, shared=SharedCounters.attach(block.fd, worker)) for worker in (0, 1))
    told = Told()
    first.set_waker(told)
    for one in (first, second):
        one.fleets["g"].refresh(1.0)
    attempt = first.fleets["f"].begin(1.0, 1.0)
    refusal = second.fleets["g"].begin(1.0, 1.0)
    assert (refusal.code, refusal.max_wait_s) == ("memory_short", 10.0)
    ticket = Ticket(told, rank=1, since=1.0, deadline=11.0)
    assert second.fleets["g"].admission.join(ticket, refusal.preferred, 1.0) is None
    attempt.settle(Outcome.SUCCESS, 2.0)
    assert told.woken == [1]


def test_a_killed_workers_leases_vanish_with_its_cells(block):
    def worker():
        other = table(fleet(), shared=SharedCounters.attach(block.fd, 1))
        held, _ = begin_all(other.fleets["llm"])
        signal.pause()
        held.clear()

    survivor = table(fleet(), shared=SharedCounters.attach(block.fd, 0))
    pool = survivor.fleets["llm"]
    with forked(worker):
        wait_for(lambda: survivor.memory.devices["n1/gpu0"].free() == 0)
        assert isinstance(pool.begin(1.0, 1.0), Rejection)
    block.clear_worker(1)
    assert len(begin_all(pool)[0]) == 4


def test_leases_that_the_parent_has_cleared_by_mistake_are_shown_again(block):
    whole, other = (table(fleet(), shared=SharedCounters.attach(block.fd, worker)) for worker in (0, 1))
    attempt = whole.fleets["llm"].begin(1.0, 1.0)
    block.clear_worker(0)
    assert other.memory.devices["n1/gpu0"].free() == 8 * GIB
    whole.memory.counters()
    assert other.memory.devices["n1/gpu0"].free() == 6 * GIB
    attempt.settle(Outcome.SUCCESS, 2.0)
    assert other.memory.devices["n1/gpu0"].free() == 8 * GIB


def test_a_full_block_leaves_each_worker_to_itself():
    parent = SharedCounters.create(workers=2, replicas=1)
    whole = table(fleet(replicas=[ON_GPU0]), devices=[GPU0], shared=SharedCounters.attach(parent.fd, 0))
    assert len(begin_all(whole.fleets["llm"])[0]) == 4
    parent.close()
    os.close(parent.fd)


# --- in words ------------------------------------------------------------------------------------


def test_why_a_replica_is_not_asked_names_the_device_and_the_sum():
    whole = table(fleet(replicas=[ON_GPU0, {}]))
    pool = whole.fleets["llm"]
    said = {one.name: one for one in pool.explain(1.0)}
    assert (said["r0"].asked, said["r0"].reasons) == (True, [])
    filler = [
        pool.begin_pinned(PinnedReplica("llm/0", "r0", "x", only_finishes=False), 1.0, 1.0) for _ in range(4)
    ]
    said = {one.name: one for one in pool.explain(1.0)}
    assert (said["r0"].eligible, said["r0"].asked) == (True, False)
    assert said["r0"].reasons == [
        "its device n1/gpu0 has 0 bytes free for leases, the request needs 2 GiB",
    ]
    assert (said["r1"].asked, said["r1"].reasons) == (True, [])
    assert len(filler) == 4
