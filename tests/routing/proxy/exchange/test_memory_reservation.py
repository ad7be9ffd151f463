"""Requests that lease memory on a device: what waits for it, what ends it, and what clients are told.

The fixture ``rig`` looks after each test whether everything was given back.
"""

import asyncio
import re
import time
from typing import Any

import pytest

from routing.contract.table import AcceleratorSpec
from routing.proxy import queue_scheduler
from tests.routing.proxy.exchange.queueing import Gate, ask, clients, code, policy
from tests.routing.proxy.rig import OK, Answer, Client, Rig, until

GPU = AcceleratorSpec(name="n1/gpu0", memory_bytes=100, headroom_percent=0)
ON_GPU: dict[str, Any] = {"accelerators": ["n1/gpu0"], "memory_bytes": 10, "request_bytes": 30}


async def one(rig: Rig, name: str = "f", takes: int = 30, **fields: Any) -> Gate:
    """A fleet of one replica that holds 10 of the device's 100 bytes; its requests take so many."""
    replica = await rig.replica()
    given = {"max_concurrency": None, **fields}
    on_devices = {replica.name: {**ON_GPU, "request_bytes": takes}}
    rig.fleet(replica, name=name, policy=policy(**given), devices=(GPU,), on_devices=on_devices)
    return Gate(replica)


def leased(rig: Rig) -> int:
    return rig.table.memory.devices["n1/gpu0"].leased


def to(fleet: str, number: int = 1) -> bytes:
    return ask(number, b"\r\nX-Switchyard-Fleet: " + fleet.encode())


async def lined_up(rig: Rig, client: Client, fleet: str, number: int = 1) -> None:
    """Ask, and see that this fleet's request waits then."""
    line = rig.table.fleets[fleet].admission.queue
    before = len(line)
    client.send(to(fleet, number))
    await until(lambda: len(line) == before + 1)


async def test_memory_that_one_fleet_frees_wakes_who_waits_in_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_scheduler, "LOOK_EVERY_S", 60.0)  # Nobody looks by itself.
    f, g = await one(rig), await one(rig, "g", takes=50)
    first, second, third = await clients(rig, 3)
    first.send(to("f"))
    second.send(to("f"))
    await until(lambda: len(f.serving) == 2)
    await lined_up(rig, third, "g")  # 100 − 2 · 10 held − 2 · 30 leased
    f.release()
    assert (await first.answer()).status == 200
    await until(lambda: g.serving)
    assert leased(rig) == 80
    g.release()
    f.release()
    assert [(await one.answer()).status for one in (second, third)] == [200, 200]
    assert rig.table.memory.devices["n1/gpu0"].waits == 1


async def test_who_waits_in_vain_is_told_which_device_is_short(rig: Rig) -> None:
    gate = await one(rig, takes=60, queue={"timeout_s": 0.2})
    first, second = await clients(rig, 2)
    first.send(to("f"))
    await until(lambda: gate.serving)
    answer = await second.ask(to("f"))
    assert (answer.status, code(answer), answer.get(b"retry-after")) == (503, "memory_short", [b"1"])
    assert re.search(
        rb"timed out after \d\.\d s in the queue: "
        rb"no replica of fleet f has the memory for the request: r0: its device "
        rb"n1/gpu0 has 30 bytes free for leases, the request needs 60 bytes",
        answer.body,
    )
    gate.release()
    assert (await first.answer()).status == 200


async def test_who_cannot_wait_is_told_as_well(rig: Rig) -> None:
    gate = await one(rig, takes=60, queue={"size": 0})
    first, second = await clients(rig, 2)
    first.send(to("f"))
    await until(lambda: gate.serving)
    answer = await second.ask(to("f"))
    assert (answer.status, code(answer)) == (503, "queue_full")
    assert b"its device n1/gpu0 has 30 bytes free for leases, the request needs 60 bytes" in answer.body
    gate.release()
    assert (await first.answer()).status == 200


async def test_what_never_fits_is_refused_at_once(rig: Rig) -> None:
    await one(rig, takes=91)
    began = time.monotonic()
    answer = await (await rig.client()).ask(to("f"))
    assert time.monotonic() - began < 1
    assert (answer.status, code(answer), answer.get(b"retry-after")) == (503, "memory_never", [])
    assert b"its device n1/gpu0 can lend 90 bytes at most, the request needs 91 bytes" in answer.body
    assert rig.table.fleets["f"].counters.queued == 0


async def test_small_requests_do_not_pass_a_large_one_by_for_ever(rig: Rig) -> None:
    small, large = await one(rig, "small"), await one(rig, "large", takes=80, queue={"timeout_s": 2.4})
    several, waiting = await clients(rig, 4), await rig.client()

    async def asking(client: Client) -> int:
        answered = 0
        while not large.served:
            assert (await client.ask(to("small"))).status == 200
            answered += 1
        return answered

    async def releasing() -> None:
        while any(not task.done() for task in tasks):
            if small.serving:
                small.release()
            elif large.serving:
                large.release()
                assert (await waiting.answer()).status == 200
            await asyncio.sleep(0.005)

    tasks = [asyncio.create_task(asking(client)) for client in several]
    # Two are served at a time, and as one ends the next begins.
    await until(lambda: len(small.serving) == 2)
    await lined_up(rig, waiting, "large")
    served = asyncio.create_task(releasing())
    # It goes before those that wait at half of its time, and not at its end.
    await until(lambda: large.served, 2.4)
    assert sum([await task for task in tasks]) > 20
    await served


async def test_a_body_leases_by_its_length(rig: Rig) -> None:
    replica = await rig.replica()
    by_work = {"accelerators": ["n1/gpu0"], "request_bytes": 10, "request_bytes_per_work": 0.5}
    rig.fleet(replica, devices=(GPU,), on_devices={replica.name: by_work})
    gate = Gate(replica)
    client = await rig.client()
    client.send(b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 61\r\n\r\n" + b"x" * 61)
    await until(lambda: gate.serving)
    assert leased(rig) == 41  # 10 + 30.5, rounded up
    gate.release()
    assert (await client.answer()).status == 200


async def test_clients_that_leave_give_back_what_they_have_and_do_not_wait_on(rig: Rig) -> None:
    gate = await one(rig, takes=90)
    first, second, third = await clients(rig, 3)
    first.send(to("f", 1))
    await until(lambda: gate.serving)
    await lined_up(rig, second, "f", 2)
    await lined_up(rig, third, "f", 3)
    second.abort()
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    first.abort()
    await until(lambda: gate.served == [b"/1", b"/3"])
    gate.serving.pop(0)
    gate.release()
    assert (await third.answer()).status == 200


async def test_an_answer_that_is_broken_off_gives_its_lease_back(rig: Rig) -> None:
    gate = await one(rig, takes=90)
    client = await rig.client()
    client.send(to("f"))
    await until(lambda: gate.serving)
    connection = gate.serving[0].connection
    connection.transport.write(OK + b"Content-Length: 9\r\n\r\nok")
    await asyncio.sleep(0)
    assert leased(rig) == 90
    connection.transport.abort()
    assert not (await client.answer()).complete
    await until(lambda: leased(rig) == 0)


async def test_another_attempt_leases_where_it_goes(rig: Rig) -> None:
    gone, there = await rig.replica(), await rig.replica()
    gate = Gate(there)
    await gone.stop()
    on_devices = {one.name: {**ON_GPU, "request_bytes": 70} for one in (gone, there)}
    both = policy("round_robin", max_concurrency=None)
    rig.fleet(gone, there, policy=both, devices=(GPU,), on_devices=on_devices)

    async def asked() -> Answer:
        client = await rig.client()
        client.send(to("f"))
        await until(lambda: gate.serving)
        assert leased(rig) == 70
        gate.release()
        return await client.answer()

    assert [(await asked()).status for _ in range(3)] == [200] * 3
    assert gone.requests == []
