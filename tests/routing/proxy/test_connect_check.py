"""A replica at which nothing listens is out at once and back soon; requests of a lost one go elsewhere."""

import asyncio
import contextlib
import time

import msgspec
import pytest

from routing.contract.policy import Policy, Retries, Timeouts
from routing.proxy import connect_check
from routing.proxy.connect_check import AFTER_IDLE_S
from tests.ports import full_listener
from tests.routing.proxy.rig import (
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_bytes,
    unreachable,
    until,
)

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
POLICY = Policy(
    strategy="round_robin",
    slow_start_s=0,
    retries=Retries(budget_percent=100),
    timeouts=Timeouts(connect_s=2.0),
)


async def fleet_of(rig: Rig, count: int) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(count)]
    rig.fleet(*replicas, policy=POLICY)
    return replicas


def reasons(rig: Rig) -> list[str]:
    """Of the first replica."""
    return rig.table.fleets["f"].explain(time.monotonic())[0].reasons


async def test_one_refused_request_is_enough(rig: Rig) -> None:
    """At any rate of requests, whatever the strategy thinks of it."""
    killed, *_ = await fleet_of(rig, 4)
    client = await rig.client()
    # No connection is kept open to it: what is sent on one in the moment it closes is lost, not refused.
    await killed.stop()
    for _ in range(4):
        assert (await client.ask(POST)).status == 200
    await until(lambda: rig.table.fleets["f"].replicas[0].ejection.until)
    [why] = reasons(rig)
    assert "nothing listens at 127.0.0.1:" in why
    assert "refused" in why
    assert rig.table.fleets["f"].replicas[0].failed <= 2


async def test_it_is_back_soon_after_it_listens_again(rig: Rig) -> None:
    killed, *_ = await fleet_of(rig, 4)
    client = await rig.client()
    await killed.stop()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    replica = rig.table.fleets["f"].replicas[0]
    await until(lambda: replica.ejection.until)
    failed = replica.failed
    ends = time.monotonic() + 2.5
    while time.monotonic() < ends:
        assert (await client.ask(GET)).status == 200
        await asyncio.sleep(0.01)
    assert replica.failed == failed, "no request is spent on it while nothing listens"
    await killed.start()
    asked = len(killed.requests)
    ends = time.monotonic() + 10.0
    while len(killed.requests) == asked:
        assert time.monotonic() < ends
        assert (await client.ask(GET)).status == 200
        await asyncio.sleep(0.01)
    assert not replica.ejection.until


async def test_a_lost_connection_is_looked_into(rig: Rig) -> None:
    """A process that is killed with a request in hand, where no other request follows."""
    killed, *_ = await fleet_of(rig, 4)

    async def die(connection: ReplicaConnection, seen: Seen) -> None:
        await killed.stop()

    killed.script = die
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    await until(lambda: rig.table.fleets["f"].replicas[0].ejection.until)
    assert "nothing listens" in reasons(rig)[0]


async def test_a_replica_that_is_killed_while_nothing_is_in_flight_is_out_too(rig: Rig) -> None:
    """However rare requests are: its idle connection closes."""
    killed, *_ = await fleet_of(rig, 2)
    client = await rig.client()
    for _ in range(2):
        assert (await client.ask(GET)).status == 200
    await killed.stop()
    await until(lambda: rig.table.fleets["f"].replicas[0].ejection.until)
    assert "nothing listens" in reasons(rig)[0]
    assert rig.table.fleets["f"].replicas[0].failed == 0, "no request was spent on it"


async def test_a_server_that_closes_idle_connections_listens(rig: Rig) -> None:
    """It is connected to once, and stays in use."""
    closing, *_ = await fleet_of(rig, 2)
    client = await rig.client()
    for _ in range(2):
        assert (await client.ask(GET)).status == 200
    [first] = closing.open
    first.transport.close()
    await until(lambda: len(closing.connections) == 2 and not closing.open)
    assert not rig.table.fleets["f"].replicas[0].ejection.until
    await asyncio.sleep(2 * sum(AFTER_IDLE_S))
    assert len(closing.connections) == 2
    assert not rig.table.fleets["f"].replicas[0].ejection.until


async def test_a_worker_that_was_held_gives_the_connection_more_time(rig: Rig) -> None:
    """Timers run before what has come meanwhile is read. The connection was made long ago."""
    slow, *_ = await fleet_of(rig, 2)
    client = await rig.client()
    for _ in range(2):
        assert (await client.ask(GET)).status == 200
    pool = rig.table.fleets["f"]
    checks = rig.proxy.connect_checks
    checks.refused(pool, pool.replicas[0])
    await asyncio.sleep(0)  # its connection is begun
    time.sleep(POLICY.timeouts.connect_s + 1.0)  # noqa: ASYNC251 (that is the fault)
    await until(lambda: len(slow.connections) == 2 and not checks._running)
    assert not pool.replicas[0].ejection.until


async def test_a_replica_that_only_drops_connections_listens(rig: Rig) -> None:
    dropping, *_ = await fleet_of(rig, 4)
    dropping.script = answer_bytes(b"", "fin")
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET)).status == 200
    await until(lambda: len(dropping.connections) > 1)
    assert not rig.table.fleets["f"].replicas[0].ejection.until


async def test_no_connection_in_time_is_looked_into_as_well(rig: Rig) -> None:
    good = [await rig.replica() for _ in range(3)]
    with unreachable() as gone:
        policy = msgspec.structs.replace(POLICY, timeouts=Timeouts(connect_s=0.2))
        rig.fleet(gone, *good, policy=policy)
        client = await rig.client()
        for _ in range(4):
            assert (await client.ask(POST)).status == 200
        await until(lambda: rig.table.fleets["f"].replicas[0].ejection.until)
        assert "no connection to 127.0.0.1:" in reasons(rig)[0]
        rig.fleet(*good, policy=policy)


async def test_no_request_is_spent_before_a_check_that_may_time_out_has_ended(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_check, "AT_LEAST_S", 0.3)
    monkeypatch.setattr(connect_check, "AGAIN_S", 10.0)
    good = [await rig.replica() for _ in range(3)]
    policy = msgspec.structs.replace(POLICY, timeouts=Timeouts(connect_s=0.2))
    with full_listener() as listener:
        gone = Replica("gone")
        gone.port = listener.getsockname()[1]
        rig.fleet(gone, *good, policy=policy)
        client, state = await rig.client(), rig.table.fleets["f"].replicas[0].ejection
        while not state.until:
            assert (await client.ask(POST)).status == 200
            await asyncio.sleep(0.01)
        assert state.until - state.claimed_at > connect_check.AGAIN_S + connect_check.AT_LEAST_S
        rig.fleet(*good, policy=policy)


async def test_a_first_packet_that_is_dropped_is_waited_for(rig: Rig) -> None:
    """The accept queue of a replica without CPU is full for a moment; the SYN comes again after a second."""
    good = [await rig.replica() for _ in range(3)]
    policy = msgspec.structs.replace(POLICY, timeouts=Timeouts(connect_s=0.2))
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(full_listener())
        busy = Replica("busy")
        busy.port = listener.getsockname()[1]
        rig.fleet(busy, *good, policy=policy)
        client, checks = await rig.client(), rig.proxy.connect_checks
        accept = asyncio.get_running_loop().sock_accept
        replica = rig.table.fleets["f"].replicas[0]
        while not checks._running:
            assert (await client.ask(POST)).status == 200
        await asyncio.sleep(2 * policy.timeouts.connect_s)
        listener.setblocking(False)
        while checks._running:
            with contextlib.suppress(TimeoutError):
                sockets.enter_context((await asyncio.wait_for(accept(listener), 0.1))[0])
        assert replica.failed == 1
        assert not replica.ejection.count
        rig.fleet(*good, policy=policy)


def declare_down(rig: Rig) -> None:
    """The first replica's probes fail."""
    old = rig.table.fleets["f"].snapshot
    first, *others = old.replicas
    replicas = [msgspec.structs.replace(first, health="down"), *others]
    rig.table.apply_snapshot(msgspec.structs.replace(old, version=old.version + 1, replicas=replicas))


async def test_requests_of_a_replica_that_is_declared_down_are_freed(rig: Rig) -> None:
    """By the retry rules: one that may be sent twice is answered by another, one that may not gets a 502."""
    silent, *others = await fleet_of(rig, 4)
    silent.script = answer_bytes(b"")
    rig.fleet(silent, *others, policy=POLICY, draining=tuple(others))
    safe, unsafe = await rig.client(), await rig.client()
    safe.send(GET)
    unsafe.send(POST)
    await until(lambda: len(silent.requests) == 2)
    rig.fleet(silent, *others, policy=POLICY)
    declare_down(rig)
    pool = rig.table.fleets["f"]

    def freed() -> bool:
        pool.refresh(time.monotonic())
        return not pool.replicas[0].in_flight

    await until(freed)
    assert (await safe.answer()).status == 200
    answer = await unsafe.answer(b"POST")
    assert (answer.status, answer.get(b"retry-after")) == (502, [])
    assert b"its probes fail" in answer.body
    assert [seen.line for one in others for seen in one.requests] == [b"GET /x HTTP/1.1"], "never sent twice"
