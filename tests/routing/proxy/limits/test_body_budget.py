"""The memory for request bodies: what counts, who gives way when it is short, and who never does."""

import asyncio
from functools import partial

import pytest

from routing.http.timeout_sweeper import TimeoutSweeper
from routing.proxy.limits import body_budget
from routing.proxy.limits.body_budget import AT_ONCE, READ_BYTES, REFUSED_AT_ONCE, BodyBudget
from tests.routing.proxy.limits.bodies import MIB, chat, deaf, head, hears, post, refused, with_memory
from tests.routing.proxy.rig import (
    Client,
    Gate,
    Replica,
    ReplicaConnection,
    Seen,
    StartRig,
    until,
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "SEARCH_EVERY_S", 0.0)
    monkeypatch.setattr(body_budget, "STALLED_S", 0.2)


async def status(client: Client) -> int:
    """503 as well where the client was still sending so much that it has not read the response."""
    try:
        return (await client.answer()).status
    except ConnectionError:
        return 503


def one_more(replica: Replica, before: int) -> bool:
    return len(replica.requests) > before


async def test_a_body_counts_until_its_response(start_rig: StartRig) -> None:
    """Also once it is complete, and its fleet is known: a copy is kept for a retry."""
    rig, replica = await with_memory(start_rig, 16 * MIB)
    gate = Gate(replica)
    client = await rig.client()
    client.send(post(MIB))
    await until(lambda: replica.requests)
    assert rig.proxy.bodies.used == MIB
    gate.open.set()
    assert (await client.answer()).status == 200
    assert rig.proxy.bodies.used == 0
    assert replica.requests[0].body == chat(MIB)


async def test_copies_for_retries_are_freed_first(start_rig: StartRig) -> None:
    """Requests that run go on; a body that comes finds room; and nobody is refused."""
    rig, replica = await with_memory(start_rig, 4 * MIB)
    gate = Gate(replica)
    clients = [await rig.client() for _ in range(8)]
    for client in clients:
        before = len(replica.requests)
        client.send(post(MIB))
        await until(partial(one_more, replica, before))
    bodies = rig.proxy.bodies
    assert bodies.used <= 4 * MIB
    assert bodies.acts[body_budget.UNCOPIED] >= 4
    gate.open.set()
    for client in clients:
        assert (await client.answer()).status == 200
    assert (bodies.used, bodies.acts[body_budget.REFUSED]) == (0, 0)


async def test_what_has_no_copy_is_not_sent_again(start_rig: StartRig) -> None:
    rig, replica = await with_memory(start_rig, 16 * MIB)
    other = await rig.replica()
    rig.fleet(replica, other, protocol="openai")

    async def lost(connection: ReplicaConnection, seen: Seen) -> None:
        await gone.wait()
        connection.transport.close()

    gone = asyncio.Event()
    replica.script = other.script = lost
    client = await rig.client()
    client.send(post(MIB))
    await until(lambda: replica.requests + other.requests)
    (charge,) = rig.proxy.bodies._running
    assert charge.owner.free_retry_copy()
    assert rig.proxy.bodies.used == 0
    gone.set()
    assert (await client.answer()).status == 502
    assert len(replica.requests + other.requests) == 1


async def test_a_replica_that_takes_nothing(start_rig: StartRig) -> None:
    """What it has not taken counts, with or without a copy. Such requests are never refused, further bodies
    wait for room or are, and small ones go on."""
    rig, replica = await with_memory(start_rig, 48 * MIB)
    replica.on_data = deaf
    clients = [await rig.client() for _ in range(8)]
    for client in clients:
        client.send(post(8 * MIB))
    bodies = rig.proxy.bodies
    await until(lambda: bodies.waiting and bodies._running)
    running, most = len(bodies._running), bodies.used
    connections = len(replica.connections)
    small = await rig.client()
    small.send(post(1000)[:-5])
    await asyncio.sleep(0.01)
    small.send(post(1000)[-5:])
    await until(lambda: len(replica.connections) > connections)
    assert most <= 48 * MIB
    hears(replica)
    assert (await small.answer()).status == 200
    statuses = [await status(client) for client in clients]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= running
    # Those that a busy machine did not send for a second were refused as stalled.
    refused = bodies.acts[body_budget.REFUSED] + bodies.acts[body_budget.STALLED]
    assert statuses.count(503) == refused
    assert len(replica.requests) == statuses.count(200) + 1


async def test_stalled_bodies_give_way(start_rig: StartRig) -> None:
    """The largest first; small ones had a part of their own all the time."""
    rig, replica = await with_memory(start_rig, 10 * MIB)
    stalled = [await rig.client() for _ in range(3)]
    for client in stalled:
        client.send(post(2 * MIB)[:-1])
    bodies = rig.proxy.bodies
    await until(lambda: bodies.used > 5.9 * MIB)
    small = await rig.client()
    whole = post(1000)
    for _ in range(3):
        small.send(whole[:-9])
        await asyncio.sleep(0.01)
        small.send(whole[-9:])
        assert (await small.answer()).status == 200
    large = await rig.client()
    large.send(post(2 * MIB))
    assert (await large.answer()).status == 200
    assert len(replica.requests) == 4
    assert bodies.acts[body_budget.STALLED] >= 1


async def test_a_byte_now_and_then_is_no_progress(start_rig: StartRig) -> None:
    rig, _ = await with_memory(start_rig, 6 * MIB)
    trickles = await rig.client()
    trickles.send(post(3 * MIB)[:-1000])
    await until(lambda: rig.proxy.bodies.used > 2 * MIB)

    async def trickle() -> None:
        while True:
            trickles.send(b"y")
            await asyncio.sleep(0.02)

    going = asyncio.create_task(trickle())
    large = await rig.client()
    large.send(post(2 * MIB))
    assert (await large.answer()).status == 200
    going.cancel()
    await refused(trickles)


async def test_waiting_bodies_do_not_wait_for_each_other(start_rig: StartRig) -> None:
    """More begin than there is room for: some are served, the last ones are refused, and nobody hangs."""
    rig, _ = await with_memory(start_rig, 8 * MIB)
    clients = [await rig.client() for _ in range(12)]
    body = post(2 * MIB)
    for client in clients:
        client.send(body[: MIB // 2])
    for client in clients:
        client.send(body[MIB // 2 :])
    statuses = [await status(client) for client in clients]
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 2
    assert rig.proxy.bodies.used == 0


async def test_a_body_beyond_the_longest_wait_is_refused(
    start_rig: StartRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_budget, "LONGEST_WAIT_S", 0.3)
    rig, replica = await with_memory(start_rig, 16 * MIB)
    replica.on_data = deaf
    first, second = await rig.client(), await rig.client()
    first.send(post(8 * MIB))
    await until(lambda: rig.proxy.bodies._running)
    second.send(post(8 * MIB))
    await refused(second)
    hears(replica)
    assert (await first.answer()).status == 200


async def test_small_bodies_alone_may_use_all(start_rig: StartRig) -> None:
    rig, _ = await with_memory(start_rig, 460_000)
    holding = [await rig.client() for _ in range(6)]
    for client in holding:
        client.send(post(60_000)[:-1])
    await until(lambda: rig.proxy.bodies.used >= 350_000)
    one_more = await rig.client()
    one_more.send(post(60_000)[:-1])
    await refused(one_more)


async def test_a_streamed_upload_counts_what_is_held(start_rig: StartRig) -> None:
    rig, replica = await with_memory(start_rig, 64 * MIB)
    replica.on_data = deaf
    client = await rig.client()
    client.send(head(32 * MIB, b"/fleets/f/v1/x") + bytes(32 * MIB))
    bodies = rig.proxy.bodies
    await until(lambda: bodies.used)
    await asyncio.sleep(0.1)
    assert 0 < bodies.used <= 4 * READ_BYTES
    hears(replica)
    assert (await client.answer()).status == 200
    assert bodies.used == 0


async def test_a_client_that_leaves_gives_back(start_rig: StartRig) -> None:
    rig, replica = await with_memory(start_rig, 12 * MIB)
    replica.on_data = deaf
    clients = [await rig.client() for _ in range(4)]
    for client in clients:
        client.send(post(8 * MIB))
    await until(lambda: rig.proxy.bodies.waiting)
    for client in clients:
        client.abort()
    await until(lambda: not rig.proxy.bodies.used)
    assert not rig.proxy.bodies.waiting


class Owner:
    """Of a body that is fed by hand."""

    def __init__(self, number: int, resumed: list[int]) -> None:
        self.number = number
        self.resumed = resumed
        self.refused = False
        self.neighbours = 1

    def pause_collecting(self) -> None: ...

    def resume_collecting(self) -> None:
        self.resumed.append(self.number)

    def refuse_body(self) -> None:
        self.refused = True

    def free_retry_copy(self) -> bool:
        return False

    def measure_upload(self) -> None: ...

    def end_upload(self) -> None: ...


async def test_few_are_read_on_in_one_turn_of_the_loop() -> None:
    """Whoever waited has much to be read: where there is room for many at once, others are served between."""
    loop = asyncio.get_running_loop()
    budget = BodyBudget(loop, TimeoutSweeper(loop), 64 * MIB)
    resumed: list[int] = []
    running = budget.begin(Owner(-1, resumed), 46 * MIB, 46 * MIB, True, True, 0.0)
    assert running is not None
    for number in range(3 * AT_ONCE):
        charge = budget.begin(Owner(number, resumed), 1000, 8 * MIB, False, False, 1.0)
        assert charge is not None
        budget.grow(charge, READ_BYTES, False, 2.0)
    assert budget.waiting == 3 * AT_ONCE
    budget.release(running)
    for read_on in range(AT_ONCE, 3 * AT_ONCE + 1, AT_ONCE):
        await asyncio.sleep(0)
        assert resumed == list(range(read_on))
    assert not budget.waiting
    budget.check(3.0)


async def test_few_are_refused_in_one_turn_of_the_loop() -> None:
    """Waiting bodies alone use the memory, so those that began last are refused until the first has room:
    more than a hundred of them here."""
    loop = asyncio.get_running_loop()
    budget = BodyBudget(loop, TimeoutSweeper(loop), 160 * MIB)
    owners = [Owner(number, []) for number in range(160)]
    running = budget.begin(owners[0], 90 * MIB, 90 * MIB, True, True, 0.0)
    assert running is not None
    for owner in owners:
        charge = budget.begin(owner, 1000, 100 * MIB, False, True, 1.0)
        assert charge is not None
        budget.grow(charge, READ_BYTES, False, 2.0)
    assert budget.waiting > 100
    budget.release(running)
    for count in range(0, 96, REFUSED_AT_ONCE):
        assert [owner.number for owner in owners if owner.refused] == list(
            range(len(owners) - count, len(owners))
        )
        budget.check(2.0)
