"""Every request case three ways: at once, after a good request on the same connection, and byte by byte."""

from dataclasses import replace

import pytest

from routing.http.deferred_chunks import are_small
from tests.routing.proxy.cases.fields import FIELDS
from tests.routing.proxy.cases.forwarding import FORWARDING
from tests.routing.proxy.cases.framing import FRAMING
from tests.routing.proxy.cases.request import Case
from tests.routing.proxy.cases.request_line import REQUEST_LINE
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, Seen, until
from tests.sampling import one_in

CASES = REQUEST_LINE + FIELDS + FRAMING + FORWARDING
CANARY = b"GET /canary HTTP/1.1\r\nHost: a.test\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
each_in_another_way = pytest.mark.parametrize("case", one_in(5, CASES), ids=lambda case: case.id)


@each_case
async def test_at_once(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    client.send(case.sent)
    await judge(case, client, replica, rig, at_once=True)


@each_in_another_way
async def test_after_a_good_request(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(CANARY)).status == 200
    client.send(case.sent)
    await judge(case, client, replica, rig, at_once=True)


@each_in_another_way
async def test_byte_by_byte(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    await client.send_bytewise(case.sent)
    if case.early:
        case = replace(case, statuses=case.statuses[:1], closes=True, forwarded=())
    await judge(case, client, replica, rig, at_once=False)


@pytest.mark.parametrize("case", [case for case in CASES if case.asks_to_continue], ids=lambda case: case.id)
@pytest.mark.parametrize("way", ["first", "second", "byte by byte"])
async def test_a_body_that_waits_for_100(
    case: Case, way: str, rig: Rig, replica: Replica, client: Client
) -> None:
    if way == "second":
        assert (await client.ask(CANARY)).status == 200
    head, end, body = case.sent.partition(b"\r\n\r\n")
    if way == "byte by byte":
        await client.send_bytewise(head + end)
    else:
        client.send(head + end)
    assert (await client.answer()).head == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    await judge(case, client, replica, rig, at_once=False, continued=True)


async def judge(
    case: Case, client: Client, replica: Replica, rig: Rig, *, at_once: bool, continued: bool = False
) -> None:
    """All that came of it, at either side. ``at_once``: sent in one segment; ``continued``: 100 was read."""
    if case.half_closes:
        client.half_close()
    answers = await final_answers(
        case, client, 100 if case.asks_to_continue and not (at_once or continued) else 0
    )
    assert tuple(answer.status for answer in answers) == case.statuses
    if case.closes:
        assert not answers or answers[-1].get(b"connection") == [b"close"]
        assert await client.ends() == b""
    else:
        assert (await client.ask(CANARY)).body == b"ok"
    authority = b"127.0.0.1:%d" % replica.port
    seen = [request for request in replica.requests if b"/canary" not in request.line]
    assert len(seen) == len(case.forwarded)
    for request, wanted in zip(seen, case.forwarded, strict=True):
        assert wanted.is_head(request.head, authority, at_once), (
            request.head,
            wanted.head(authority, at_once),
        )
        assert request.body == wanted.body
    assert ids_of([one for one in answers if one.get(b"x-switchyard-replica")]) == ids_of(seen)
    await judge_incomplete(case, replica, at_once)
    other = await rig.client()
    assert (await other.ask(CANARY)).body == b"ok"


async def final_answers(case: Case, client: Client, interim: int) -> list[Answer]:
    """Those that answer, and before the first one no interim response but what was announced."""
    method = case.sent.lstrip(b"\r\n").split(b" ")[0]
    methods = case.methods or (method,) * len(case.statuses)
    answers = []
    for method in methods:
        answer = await client.answer(method)
        if interim and not answers:
            assert answer.status == interim
            answer = await client.answer(method)
        assert answer.complete
        if answer.get(b"x-switchyard-replica"):
            assert answer.body == (b"" if method == b"HEAD" else b"ok")
        answers.append(answer)
    return answers


def ids_of(messages: list[Answer] | list[Seen]) -> list[list[bytes]]:
    """One request id for each, the same on both sides."""
    return [message.get(b"x-request-id") for message in messages]


async def test_a_refused_method_is_told_which_are_not(client: Client) -> None:
    """RFC 9110 §15.5.6."""
    answer = await client.ask(b"TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.get(b"allow") == [b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"]


async def judge_incomplete(case: Case, replica: Replica, at_once: bool) -> None:
    """What was begun and could not be completed is what may be begun, without an end, and aborted."""
    await until(lambda: not [one for one in replica.open if one.incomplete])
    for connection in replica.connections:
        rest = connection.incomplete_bytes
        if not rest:
            continue
        assert case.begun is not None
        # Of chunks that come at once nothing goes out before they are known to be good, unless they are many.
        assert not at_once or case.half_closes or are_small(case.sent)
        head, end, body = rest.partition(b"\r\n\r\n")
        assert case.begun.is_head(head + end, b"127.0.0.1:%d" % replica.port, False)
        assert not body.endswith(LAST_CHUNK)
        assert case.begun.chunked or len(body) < len(case.begun.body)
