"""Requests that wait in their fleet's queue for a place at a replica."""

import asyncio
import time

from msgspec.structs import replace

from routing.balancing.admission.service_rate import ServiceRate
from routing.contract.table import Manifest
from tests.routing.proxy.exchange.queueing import Gate, ask, clients, code, lined_up, one, policy
from tests.routing.proxy.rig import OK, OK_ANSWER, ReplicaConnection, Rig, Seen, until


async def test_no_more_than_the_limit_are_sent_and_the_others_come_in_order(rig: Rig) -> None:
    gate = await one(rig, max_concurrency=2)
    several = await clients(rig, 6)
    for number, client in enumerate(several):
        await lined_up(rig, client, number, waiting=max(0, number - 1))
        await until(lambda number=number: len(gate.serving) == min(2, number + 1))
    for number, client in enumerate(several):
        gate.release()
        assert (await client.answer()).status == 200
        await until(lambda number=number: len(gate.served) == min(6, number + 3))
    assert gate.served == [b"/%d" % number for number in range(6)]
    assert gate.most == 2
    counters = rig.table.fleets["f"].counters
    assert (counters.queued, sum(counters.waited.values()), counters.in_flight) == (4, 4, 0)


async def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(rig: Rig) -> None:
    gate = await one(rig, queue={"size": 1, "timeout_s": 7})
    first, second, third = await clients(rig, 3)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    began = time.monotonic()
    answer = await third.ask(ask(3))
    assert time.monotonic() - began < 0.5
    assert (answer.status, code(answer)) == (503, "queue_full")
    # Nothing has ended yet, so the rate is not known: the longest wait is.
    assert answer.get(b"retry-after") == [b"7"]
    assert b"the queue is full (1 waiting)" in answer.body
    gate.release()
    assert (await first.answer()).status == 200
    await until(lambda: gate.serving)
    gate.release()
    assert (await second.answer()).status == 200
    assert gate.served == [b"/1", b"/2"]
    counters = rig.table.fleets["f"].counters
    assert (counters.queue_full, counters.no_replica, counters.errors) == (1, 0, 1)


class Steady(ServiceRate):
    """A rate that is known and does not change."""

    def __init__(self, per_s: float) -> None:
        super().__init__()
        self.per_s, self.seen = per_s, 100.0

    def look(self, ended: float, now: float) -> None:
        pass

    observe_idle = look


async def test_retry_after_is_what_the_queue_takes_to_drain(rig: Rig) -> None:
    gate = await one(rig, queue={"size": 1, "timeout_s": 60})
    rig.table.fleets["f"].admission.rate = Steady(0.4)
    first, second, third = await clients(rig, 3)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    # Two would have to end, at 0.4 a second.
    assert (await third.ask(ask(3))).get(b"retry-after") == [b"5"]
    gate.release()
    await until(lambda: gate.serving)
    gate.release()
    assert [(await client.answer()).status for client in (first, second)] == [200, 200]


async def test_a_queue_of_size_0_lets_nobody_wait(rig: Rig) -> None:
    gate = await one(rig, queue={"size": 0})
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    answer = await second.ask(ask(2))
    assert (answer.status, code(answer)) == (503, "queue_full")
    assert b"size 0" in answer.body
    gate.release()
    assert (await first.answer()).status == 200


async def test_who_waits_too_long_is_answered_in_time_and_never_sent(rig: Rig) -> None:
    gate = await one(rig, queue={"timeout_s": 0.3})
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    began = time.monotonic()
    answer = await second.ask(ask(2))
    assert 0.29 < time.monotonic() - began < 5.0
    assert (answer.status, code(answer)) == (503, "queue_timeout")
    assert answer.get(b"retry-after")
    gate.release()
    assert (await first.answer()).status == 200
    await asyncio.sleep(0.05)
    assert gate.served == [b"/1"]
    assert rig.table.fleets["f"].counters.queue_late == 1


async def test_a_clients_own_deadline_passes_in_the_queue(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    answer = await second.ask(ask(2, b"\r\nX-Request-Timeout-Ms: 200"))
    assert (answer.status, code(answer)) == (504, "request_timeout")
    gate.release()
    assert (await first.answer()).status == 200
    await asyncio.sleep(0.05)
    assert gate.served == [b"/1"]


async def test_who_would_be_late_is_refused_at_once(rig: Rig) -> None:
    gate = await one(rig)
    first, second, third = await clients(rig, 3)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    rig.table.fleets["f"].admission.rate = Steady(1.0)
    await lined_up(rig, second, 2, waiting=1)
    began = time.monotonic()
    answer = await third.ask(ask(3, b"\r\nX-Request-Timeout-Ms: 900"))
    assert time.monotonic() - began < 0.5
    assert (answer.status, code(answer)) == (503, "queue_late")
    assert b"longer than its limit of 0.9 s" in answer.body
    gate.release()
    await until(lambda: gate.serving)
    gate.release()
    assert (await second.answer()).status == 200


async def test_a_fleet_that_was_idle_does_not_take_its_idleness_for_slowness(rig: Rig) -> None:
    gate = await one(rig)
    rate = rig.table.fleets["f"].admission.rate
    for second in range(100):
        rate.observe_idle(float(second), 1.0 + second)
    assert not rate.known
    several = await clients(rig, 3)
    for number, client in enumerate(several):
        await lined_up(rig, client, number, b"\r\nX-Request-Timeout-Ms: 9000", waiting=max(0, number))
        await until(lambda: gate.serving)
    for client in several:
        await until(lambda: gate.serving)
        gate.release()
        assert (await client.answer()).status == 200


async def test_who_needs_one_replica_leaves_what_is_free_to_others(rig: Rig) -> None:
    """One that was lost by the second replica waits for the first; half of its time passes."""
    busy, breaks = await rig.replica("busy"), await rig.replica("breaks")
    rig.fleet(busy, breaks, policy=policy("round_robin", queue={"timeout_s": 1.0}))
    at_busy = Gate(busy)
    broken = 0

    async def cut_once(connection: ReplicaConnection, seen: Seen) -> None:
        nonlocal broken
        await until(lambda: at_busy.serving)
        if broken:
            connection.transport.write(OK_ANSWER)
        else:
            broken = 1
            connection.transport.abort()

    breaks.script = cut_once
    first, second, third = await clients(rig, 3)
    first.send(ask(1))
    second.send(ask(2))
    line = rig.table.fleets["f"].admission.queue
    await until(lambda: len(line) == 1)
    await asyncio.sleep(0.6)
    assert (await third.ask(ask(3))).status == 200
    assert len(line) == 1
    at_busy.release()
    await until(lambda: at_busy.serving)
    at_busy.release()
    assert [(await client.answer()).status for client in (first, second)] == [200, 200]


async def test_a_client_that_leaves_gives_up_its_place_in_the_queue(rig: Rig) -> None:
    gate = await one(rig)
    first, second, third = await clients(rig, 3)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    await lined_up(rig, third, 3, waiting=2)
    second.abort()
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    gate.release()
    assert (await first.answer()).status == 200
    await until(lambda: gate.serving)
    gate.release()
    assert (await third.answer()).status == 200
    assert gate.served == [b"/1", b"/3"]


async def test_a_higher_class_is_served_first(rig: Rig) -> None:
    gate = await one(rig)
    several = await clients(rig, 5)
    await lined_up(rig, several[0], 0)
    await until(lambda: gate.serving)
    classes = (b"low", b"", b"high", b"unheard-of")
    for number, name in enumerate(classes, 1):
        more = b"\r\nX-Switchyard-Priority: " + name if name else b""
        await lined_up(rig, several[number], number, more, waiting=number)
    for _ in several:
        await until(lambda: gate.serving)
        gate.release()
    for client in several:
        assert (await client.answer()).status == 200
    assert gate.served == [b"/0", b"/3", b"/2", b"/4", b"/1"]


async def test_a_higher_class_takes_the_last_place_of_a_lower_one(rig: Rig) -> None:
    gate = await one(rig, queue={"size": 1})
    first, low, high = await clients(rig, 3)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, low, 2, b"\r\nX-Switchyard-Priority: low", waiting=1)
    high.send(ask(3, b"\r\nX-Switchyard-Priority: high"))
    answer = await low.answer()
    assert (answer.status, code(answer)) == (503, "queue_full")
    assert b"of higher priority" in answer.body
    gate.release()
    await until(lambda: gate.serving)
    gate.release()
    assert (await high.answer()).status == 200


async def test_whichever_replica_is_free_first_takes_the_next(rig: Rig) -> None:
    slow, quick = await rig.replica(), await rig.replica()
    rig.fleet(slow, quick, policy=policy())
    at_slow, at_quick = Gate(slow), Gate(quick)
    several = await clients(rig, 4)
    for number, client in enumerate(several):
        await lined_up(rig, client, number, waiting=max(0, number - 1))
    for count in (2, 3):
        await until(lambda: at_quick.serving)
        at_quick.release()
        await until(lambda count=count: len(at_quick.served) == count)
    assert len(at_slow.served) == 1
    at_quick.release()
    at_slow.release()
    for client in several:
        assert (await client.answer()).status == 200


async def test_a_large_request_waits_for_the_fast_replica_and_lets_others_by(rig: Rig) -> None:
    """By expected work: one unit takes 20 times as long at the one replica as at the other."""
    slow, fast = await rig.replica("slow"), await rig.replica("fast")
    rig.fleet(slow, fast, policy=policy("least_expected_work"))
    pool = rig.table.fleets["f"]
    for replica, weight in zip(pool.replicas, (0.05, 1.0), strict=True):
        replica.spec = replace(replica.spec, weight=weight)
    at_slow, at_fast = Gate(slow), Gate(fast)
    first, second = await clients(rig, 2)
    first.send(ask(1))
    await until(lambda: at_fast.serving)
    await lined_up(rig, second, 2, waiting=1)
    assert not at_slow.served
    at_fast.release()
    await until(lambda: at_fast.serving)
    at_fast.release()
    for client in (first, second):
        assert (await client.answer()).status == 200
    assert (at_fast.served, at_slow.served) == ([b"/1", b"/2"], [])
    assert [replica.load for replica in pool.replicas] == [0, 0]


async def test_a_body_goes_on_coming_while_its_request_waits(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    second.send(b"POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 200000\r\n\r\n" + bytes(100_000))
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    gate.release()
    second.send(bytes(100_000))
    await until(lambda: gate.serving)
    assert gate.serving[0].body == bytes(200_000)
    gate.release()
    assert (await first.answer()).status == 200
    assert (await second.answer()).status == 200


async def test_a_bad_body_of_a_request_that_waits_is_refused_and_leaves_nothing(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    second.send(b"POST /2 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    second.send(b"no size\r\n")
    assert (await second.answer()).status == 400
    assert not len(rig.table.fleets["f"].admission.queue)
    gate.release()
    assert (await first.answer()).status == 200


async def test_who_waits_when_the_fleet_is_removed_is_told(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    rig.table.apply_manifest(Manifest(epoch=1, version=1000))
    answer = await second.answer()
    assert (answer.status, code(answer)) == (503, "fleet_removed")
    gate.release()
    assert (await first.answer()).status == 200


async def test_a_raised_limit_holds_at_once(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    rig.fleet(rig.replicas[0], policy=policy(max_concurrency=2))
    await until(lambda: len(gate.serving) == 2, limit_s=0.5)
    for client in (first, second):
        gate.release()
        assert (await client.answer()).status == 200


async def test_a_request_that_is_sent_again_waits_for_a_place(rig: Rig) -> None:
    breaks, works = await rig.replica("breaks"), await rig.replica("works")
    rig.fleet(breaks, works, policy=policy("round_robin"))
    gate = Gate(works)

    async def cut(connection: ReplicaConnection, seen: Seen) -> None:
        await until(lambda: gate.serving)
        connection.transport.abort()

    breaks.script = cut
    first, second = await clients(rig, 2)
    first.send(ask(1))
    second.send(ask(2))
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    gate.release()
    await until(lambda: gate.serving)
    gate.release()
    assert [(await client.answer()).status for client in (first, second)] == [200, 200]


async def test_a_tunnel_keeps_its_place_until_it_ends(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=policy())

    async def switch(connection: ReplicaConnection, seen: Seen) -> None:
        if b"upgrade" in seen.head.lower():
            connection.tunnel = True
            accept = b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            connection.transport.write(b"HTTP/1.1 101 Switching Protocols\r\n" + accept)
        else:
            connection.transport.write(OK_ANSWER)

    replica.script = switch
    first, second = await clients(rig, 2)
    fields = b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"
    first.send(ask(1, fields + b"\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="))
    assert (await first.answer()).status == 101
    await lined_up(rig, second, 2, waiting=1)
    first.abort()
    assert (await second.answer()).status == 200


async def test_a_stream_keeps_its_place_until_its_last_byte(rig: Rig) -> None:
    gate = await one(rig)
    first, second = await clients(rig, 2)
    await lined_up(rig, first, 1)
    await until(lambda: gate.serving)
    await lined_up(rig, second, 2, waiting=1)
    stream = gate.serving[0].connection.transport
    gate.release(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await asyncio.sleep(0.05)
    assert gate.served == [b"/1"]
    stream.write(b"0\r\n\r\n")
    assert (await first.answer()).body == b"hello"
    await until(lambda: gate.serving)
    gate.release()
    assert (await second.answer()).status == 200


async def test_what_a_replica_dropped_goes_from_the_line_to_another_that_has_a_place(rig: Rig) -> None:
    killed, other = [await rig.replica() for _ in range(2)]
    gate = Gate(killed, other)
    # Whoever has a choice goes to the first.
    rig.fleet(killed, other, policy=policy(), on_devices={killed.name: {"weight": 1000.0}})
    first, second, third = await clients(rig, 3)
    first.send(ask(0))
    await until(lambda: gate.serving)
    gate.release()
    assert (await first.answer()).status == 200
    for client, number in ((first, 1), (second, 2)):
        await lined_up(rig, client, number)
        await until(lambda number=number: len(gate.serving) == number)
    await lined_up(rig, third, 3, waiting=1)

    # Its place and the other's become free at the same moment; who was dropped came before who waits.
    gate.serving.pop(0).connection.transport.close()
    asyncio.get_running_loop().call_soon(gate.release)
    await until(lambda: len(gate.served) == 5)
    assert sorted(gate.served) == [b"/0", b"/1", b"/1", b"/2", b"/3"]
    gate.release()
    gate.release()
    answers = [await client.answer() for client in (first, second, third)]
    assert [answer.status for answer in answers] == [200] * 3
    asked = [answer.get(b"x-switchyard-replica") for answer in answers]
    assert asked == [[other.name.encode()], [other.name.encode()], [killed.name.encode()]]
