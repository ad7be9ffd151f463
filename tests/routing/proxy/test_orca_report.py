"""Load that a replica tells in the head of an answer: taken out, kept, and asked for where wanted."""

import asyncio

import pytest

from routing.balancing.replica.state import Replica as Known
from routing.contract.load_report import ReportedLoad
from routing.contract.policy import Policy
from routing.contract.probe import Probe
from tests.routing.proxy.rig import Answer, Replica, Rig, answer_bytes

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n%b\r\n"
SAID = b"TEXT named_metrics.kv_cache_usage_perc=0.75,named_metrics.num_requests_waiting=3"
FIELD = b"Endpoint-Load-Metrics: " + SAID + b"\r\n"
LOAD = ReportedLoad(waiting=3, kv_share=0.75)


def known(rig: Rig) -> Known:
    return rig.table.fleets["f"].replicas[0]


def load_of(rig: Rig) -> ReportedLoad | None:
    state = known(rig).load_reports.history
    return None if state is None else state.load


async def answered(rig: Rig, replica: Replica, head: bytes, body: bytes = b"ok") -> Answer:
    replica.script = answer_bytes(b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n" + head + body)
    client = await rig.client()
    return await client.ask(GET % b"")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (FIELD + b"Content-Length: 2\r\n\r\n", b"ok"),
        (b"Content-Length: 2\r\n" + FIELD.upper().replace(SAID.upper(), SAID) + b"X-A: 1\r\n\r\n", b"ok"),
        (b"Transfer-Encoding: chunked\r\n" + FIELD + b"\r\n", b"2\r\nok\r\n0\r\n\r\n"),
        (b'endpoint-load-metrics: JSON {"named_metrics": {"kv_cache_usage_perc": 0.75, '
         b'"num_requests_waiting": 3}}\r\nContent-Length: 2\r\n\r\n', b"ok"),
    ],
)  # fmt: skip
async def test_it_is_kept_at_the_replica_and_not_passed_on(rig: Rig, head: bytes, body: bytes) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    answer = await answered(rig, replica, head, body)
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.get(b"endpoint-load-metrics") == []
    assert answer.get(b"x-a") == ([b"1"] if b"X-A" in head else [])
    assert load_of(rig) == LOAD
    assert known(rig).load_reports.refused == 0


async def test_the_same_connections_next_answers_tell_again(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    for waiting in (3, 3, 4, 5):
        said = b"endpoint-load-metrics: named_metrics.num_requests_waiting=%d\r\n" % waiting
        replica.script = answer_bytes(b"HTTP/1.1 200 OK\r\n" + said + b"Content-Length: 2\r\n\r\nok")
        assert (await client.ask(GET % b"")).body == b"ok"
        assert load_of(rig) == ReportedLoad(waiting=waiting)
    assert len(replica.connections) == 1


@pytest.mark.parametrize(
    "field", [b"TEXT kv", b"BIN CZqZmZmZmbk/", b"", b"TEXT mem_utilization=7", b"x" * 5000]
)
async def test_what_cannot_be_read_is_counted_and_costs_nothing(rig: Rig, field: bytes) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    answer = await answered(rig, replica, b"endpoint-load-metrics: %b\r\nContent-Length: 2\r\n\r\n" % field)
    assert (answer.status, answer.body, answer.get(b"endpoint-load-metrics")) == (200, b"ok", [])
    assert load_of(rig) is None
    assert known(rig).load_reports.refused == bool(field)


async def test_an_answer_without_it_tells_nothing(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    answer = await answered(rig, replica, b"X-Endpoint-Load-Metrics: a=1\r\nContent-Length: 2\r\n\r\n")
    assert answer.get(b"x-endpoint-load-metrics") == [b"a=1"]
    assert (known(rig).load_reports.history, known(rig).load_reports.refused) == (None, 0)


async def test_replicas_are_asked_for_it_where_the_fleet_says_so(rig: Rig) -> None:
    def asked() -> list[bytes]:
        return replica.requests[-1].get(b"endpoint-load-metrics-format")

    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    await client.ask(GET % b"")
    assert asked() == []
    rig.fleet(replica, probe=Probe(load_header=True))
    for _ in range(2):
        await client.ask(GET % b"")
        assert asked() == [b"TEXT"]
    rig.fleet(replica)
    await client.ask(GET % b"")
    assert asked() == []
    rig.fleet(replica, name="late", probe=Probe(load_header=True), policy=Policy())
    await client.ask(b"GET /x HTTP/1.1\r\nHost: a.test\r\nX-Switchyard-Fleet: late\r\n\r\n")
    assert asked() == [b"TEXT"]


async def test_what_it_tells_counts_beside_our_own(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    said = b"endpoint-load-metrics: named_metrics.num_requests_running=9\r\nContent-Length: 2\r\n\r\n"

    for _ in range(50):
        await answered(rig, replica, said)
        if known(rig).external_load:
            break
        await asyncio.sleep(0.02)  # the slow timer beats each 100 ms
    assert known(rig).external_load == 9
