"""Traces: a client's goes to the replica as it came; where it sends none, one is begun."""

import re

from routing.contract.policy import Policy
from tests.routing.proxy.rig import Client, Replica, ReplicaConnection, Rig, Script, Seen, answer_ok

TRACE = b"0af7651916cd43dd8448eb211c80319c"
SENT = b"00-" + TRACE + b"-b7ad6b7169203331-01"
BEGUN = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-01")


def request(fields: bytes = b"") -> bytes:
    return b"GET / HTTP/1.1\r\nHost: a.test\r\n" + fields + b"\r\n"


async def test_a_trace_is_passed_on_and_none_is_begun(replica: Replica, client: Client) -> None:
    await client.ask(request(b"Traceparent: " + SENT + b"\r\nTracestate: a=1\r\n"))
    assert replica.requests[-1].get(b"traceparent") == [SENT]
    assert replica.requests[-1].get(b"tracestate") == [b"a=1"]


async def test_each_request_without_one_begins_its_own(replica: Replica, client: Client) -> None:
    for fields in (b"", b"", b"X-A: 1\r\n", b"Via: 1.1 a\r\n", b"Traceparent: mine\r\nTracestate: a=1\r\n"):
        await client.ask(request(fields))
        assert replica.requests[-1].get(b"tracestate") == []
    values = [value for seen in replica.requests for value in seen.get(b"traceparent")]
    assert len(set(values)) == len(values) == 5
    assert all(BEGUN.fullmatch(value) for value in values)


async def test_heads_that_a_template_recognises_carry_their_own_trace(
    replica: Replica, client: Client
) -> None:
    sent = [SENT.replace(b"0af7", b"%04x" % number) for number in range(6)]
    for value in sent:
        await client.ask(request(b"Traceparent: " + value + b"\r\n"))
    assert [seen.get(b"traceparent") for seen in replica.requests] == [[value] for value in sent]


async def test_none_is_begun_where_the_operator_wants_none(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.proxy.begin_traces(None)
    await client.ask(request())
    await client.ask(request(b"Traceparent: " + SENT + b"\r\n"))
    assert [seen.get(b"traceparent") for seen in replica.requests] == [[], [SENT]]


async def test_all_attempts_for_a_request_are_of_one_trace(rig: Rig) -> None:
    one, other = await rig.replica(), await rig.replica()
    one.script = other.script = lose_the_first(one, other)
    rig.fleet(one, other, policy=Policy(slow_start_s=0))
    client = await rig.client()
    answer = await client.ask(request())
    assert answer.status == 200
    (first,), (second,) = (seen.get(b"traceparent") for seen in (*one.requests, *other.requests))
    assert first == second


def lose_the_first(one: Replica, other: Replica) -> Script:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if len(one.requests) + len(other.requests) == 1:
            connection.transport.abort()
        else:
            await answer_ok(connection, seen)

    return script
