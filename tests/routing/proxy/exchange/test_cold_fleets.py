"""Requests for a fleet whose replicas are still loading: refused with the time it takes, or held."""

from typing import Any

import pytest
from msgspec.structs import replace

from routing.balancing.admission.admission_queue import MOST_ASKED
from tests.routing.proxy.exchange.queueing import Gate, ask, clients, code, lined_up, policy
from tests.routing.proxy.rig import Rig, until


def loading(rig: Rig, startup_s: float | None = None, **queue: Any) -> None:
    """The one replica is being checked."""
    rig.fleet(rig.replicas[0], policy=policy(queue=queue))
    snapshot = rig.table.fleets["f"].snapshot
    health: dict[str, Any] = {"health": "checking", "has_passed": False, "startup_s": startup_s}
    cold = [replace(spec, **health) for spec in snapshot.replicas]
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=cold))


def ready(rig: Rig) -> None:
    snapshot = rig.table.fleets["f"].snapshot
    warm = [replace(spec, health="ready", has_passed=True) for spec in snapshot.replicas]
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=warm))


@pytest.mark.parametrize(
    ("startup_s", "words", "again"),
    [
        (None, b"its startup time is not known yet", b"5"),
        (90.0, b"the first replica is expected to be ready in about 90 s", b"90"),
        (0.0, b"it takes longer than its last start", b"5"),
    ],
)
async def test_a_cold_fleet_says_so_and_when_it_is_expected(
    rig: Rig, startup_s: float | None, words: bytes, again: bytes
) -> None:
    await rig.replica()
    loading(rig, startup_s)
    client = await rig.client()
    answer = await client.ask(ask(1))
    assert (answer.status, code(answer)) == (503, "fleet_cold")
    assert b"1 checking" in answer.body
    assert words in answer.body
    assert answer.get(b"retry-after") == [again]
    assert rig.table.fleets["f"].counters.cold == 1


async def test_a_replica_that_cannot_be_asked_once_it_has_loaded_is_not_waited_for(rig: Rig) -> None:
    replica = await rig.replica()
    loading(rig, cold="hold")
    snapshot = rig.table.fleets["f"].snapshot
    without = [replace(spec, credential="env:TEST_REPLICA_UNSET") for spec in snapshot.replicas]
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=without))
    answer = await (await rig.client()).ask(ask(1))
    assert (answer.status, code(answer)) == (503, "no_replica")
    assert b"1 without its credential" in answer.body
    assert b"TEST_REPLICA_UNSET" not in answer.body
    assert b"loading" not in answer.body
    assert not replica.connections


async def test_requests_are_held_until_the_first_replica_is_ready(rig: Rig) -> None:
    replica = await rig.replica()
    loading(rig, cold="hold")
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1, waiting=1)
    await lined_up(rig, second, 2, waiting=2)
    assert not replica.requests
    ready(rig)
    for client in (first, second):
        assert (await client.answer()).status == 200


async def test_requests_are_held_for_the_first_replica_of_a_fleet_that_has_none(rig: Rig) -> None:
    replica = await rig.replica()
    loading(rig, cold="hold")
    pool = rig.table.fleets["f"]
    there = pool.snapshot
    rig.table.apply_snapshot(replace(there, version=there.version + 1, replicas=[]))
    (client,) = await clients(rig, 1)
    await lined_up(rig, client, 1, waiting=1)
    rig.table.apply_snapshot(replace(there, version=there.version + 2))
    assert not replica.requests
    ready(rig)
    assert (await client.answer()).status == 200
    # Where the policy does not say so, nobody waits for what may never come.
    rig.table.apply_snapshot(
        replace(
            there,
            version=there.version + 9,
            replicas=[],
            policy=replace(there.policy, queue=replace(there.policy.queue, cold="refuse")),
        )
    )
    answer = await client.ask(ask(2))
    assert (answer.status, code(answer)) == (503, "no_replica")


async def test_held_requests_are_not_held_for_ever_nor_without_bound(rig: Rig) -> None:
    await rig.replica()
    loading(rig, cold="hold", cold_timeout_s=0.3, size=1)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1, waiting=1)
    answer = await second.ask(ask(2))
    assert (answer.status, code(answer)) == (503, "queue_full")
    answer = await first.answer()
    assert (answer.status, code(answer)) == (503, "fleet_cold")
    assert b"timed out after 0.3 s in the queue" in answer.body


async def test_all_that_are_held_wait_for_as_long_as_the_first(rig: Rig) -> None:
    await rig.replica()
    loading(rig, cold="hold", timeout_s=0.2, cold_timeout_s=0.6)
    several = await clients(rig, 3)
    for number, client in enumerate(several, start=1):
        await lined_up(rig, client, number, waiting=number)
    for client in several:
        answer = await client.answer()
        assert (answer.status, code(answer)) == (503, "fleet_cold")
        assert b"timed out after 0.6 s in the queue" in answer.body


async def test_one_that_times_out_after_the_first_is_ready_is_told_of_slots_and_not_of_loading(
    rig: Rig,
) -> None:
    gate = Gate(await rig.replica())
    loading(rig, cold="hold", cold_timeout_s=1.0)
    several = await clients(rig, 2 * MOST_ASKED + 3)
    for number, client in enumerate(several, start=1):
        await lined_up(rig, client, number, waiting=number)
    ready(rig)
    await until(lambda: gate.served == [b"/1"])  # it has the only slot, and keeps it
    for client in several[1:]:
        answer = await client.answer()
        assert (answer.status, code(answer)) == (503, "queue_timeout")
        assert b"had a free slot for the request within 1.0 s" in answer.body
    assert rig.table.fleets["f"].counters.cold == 0
    gate.release()
    assert (await several[0].answer()).status == 200


async def test_those_that_wait_are_told_when_the_last_is_taken_out(rig: Rig) -> None:
    await rig.replica()
    loading(rig, cold="hold", cold_timeout_s=0.3)
    (client,) = await clients(rig, 1)
    await lined_up(rig, client, 1, waiting=1)
    snapshot = rig.table.fleets["f"].snapshot
    drained = [replace(spec, admin_state="maintenance") for spec in snapshot.replicas]
    rig.table.apply_snapshot(replace(snapshot, version=snapshot.version + 1, replicas=drained))
    answer = await client.answer()
    assert (answer.status, code(answer)) == (503, "no_replica")
    assert b"1 maintenance" in answer.body
