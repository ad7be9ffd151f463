"""What is worth nothing to the client yet is held, so that another replica can still give the answer."""

import asyncio
from typing import Any

import pytest

from routing.contract.policy import Retries, Timeouts
from routing.proxy.exchange import held_beginning
from tests.routing.proxy.exchange.second_attempt.attempts import (
    COMMENT,
    END,
    HEAD,
    ROLE,
    Asked,
    SilentFleet,
    chunk,
    event,
    request,
)
from tests.routing.proxy.rig import LIMIT_S, Client, Rig, reset, until

MESSAGE_START = (
    b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "role": "assistant", '
    b'"content": [], "usage": {"input_tokens": 7, "output_tokens": 1}}}\n\n'
    b'event: content_block_start\ndata: {"type": "content_block_start", "index": 0, '
    b'"content_block": {"type": "text", "text": ""}}\n\nevent: ping\ndata: {"type": "ping"}\n\n'
)
MESSAGE_DELTA = (
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, '
    b'"delta": {"type": "text_delta", "text": "hi"}}\n\n'
)
MESSAGE_STOP = b'event: message_stop\ndata: {"type": "message_stop"}\n\n'
CREATED = (
    b'event: response.created\ndata: {"type": "response.created", "response": {"id": "r", "text": {"format": '
    b'{"type": "text"}}, "output": []}}\n\n'
)
SAID = b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "hi"}\n\n'
COMPLETED = (
    b'event: response.completed\ndata: {"type": "response.completed", "response": {"output": '
    b'[{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]}}\n\n'
)
PLAIN = (
    b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}'
)
CALLS = {
    b"/fleets/f/v1/chat/completions": (ROLE, event(content="hi"), END),
    b"/fleets/f/v1/messages": (MESSAGE_START, MESSAGE_DELTA, MESSAGE_STOP),
    b"/fleets/f/v1/responses": (CREATED, SAID, COMPLETED),
}


@pytest.fixture
async def fleet(rig: Rig) -> SilentFleet:
    return await SilentFleet(rig).start(2, first_token_limit_s="off")


@pytest.fixture
async def client(rig: Rig) -> Client:
    return await rig.client()


def lose(one: Asked) -> None:
    reset(one.connection.transport)


def end(one: Asked) -> None:
    one.write(b"0\r\n\r\n")


def close(one: Asked) -> None:
    one.connection.transport.close()


def spoil(one: Asked) -> None:
    one.write(b"no chunk\r\n")


@pytest.mark.parametrize("fault", [lose, end, close, spoil])
@pytest.mark.parametrize("path", CALLS)
async def test_a_stream_that_has_only_begun_goes_to_another_replica(
    fleet: SilentFleet, client: Client, path: bytes, fault: Any
) -> None:
    role, said, last = CALLS[path]
    # Responses are stored, so that they are sent twice only where the operator says so.
    fleet.follow(first_token_limit_s="off", retries=Retries(replay_safe="always", budget_percent=100))
    client.send(request(path=path))
    first = await fleet.asked()
    first.begin(COMMENT, role)
    await asyncio.sleep(0.02)
    fault(first)
    second = await fleet.asked()
    assert second.name != first.name
    second.begin(role, said)
    second.write(chunk(last) + b"0\r\n\r\n")
    answer = await client.answer()
    assert answer.complete
    assert answer.body == role + said + last
    assert answer.get(b"x-switchyard-replica") == [second.name]
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    assert fleet.counters.errors == 0


async def test_content_goes_out_at_once_with_what_was_held(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE)
    await asyncio.sleep(0.05)
    one.send(event(content="hi"))
    async with asyncio.timeout(held_beginning.HELD_S / 2):
        begun = await client.reader.readuntil(b'"hi"')
    assert begun.startswith(b"HTTP/1.1 200")
    assert begun.count(b'"role"') == 1
    one.end()
    await client.reader.readuntil(b"0\r\n\r\n")


async def test_an_event_in_part_is_held_and_what_is_not_known_is_not(
    fleet: SilentFleet, client: Client
) -> None:
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE[:20])
    await asyncio.sleep(0.02)
    one.send(ROLE[20:])
    await asyncio.sleep(0.02)
    one.send(b'data: {"prompt_progress": 0.5}\n\n')
    async with asyncio.timeout(held_beginning.HELD_S / 2):
        begun = await client.reader.readuntil(b"prompt_progress")
    assert b'"role"' in begun
    one.send(event(content="hi"))
    one.end()
    await client.reader.readuntil(b"0\r\n\r\n")


async def test_after_a_second_the_client_gets_what_there_is(fleet: SilentFleet, client: Client) -> None:
    """From then on it has begun, and the stream is broken off."""
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE)
    async with asyncio.timeout(LIMIT_S):
        await client.reader.readuntil(b'"role"')
    lose(one)
    async with asyncio.timeout(LIMIT_S):
        rest = await client.reader.read()
    assert b'"error"' in rest
    assert not rest.endswith(b"0\r\n\r\n")
    assert not fleet.asked_more


async def test_comments_are_no_first_byte(fleet: SilentFleet, client: Client) -> None:
    """Nor is what is held, so that another replica is asked, which is silent here."""
    fleet.follow(first_token_limit_s="off", timeouts=Timeouts(first_byte_s=0.3))
    client.send(request())
    one = await fleet.asked()
    one.begin(COMMENT)
    for _ in range(20):
        if one.given_up:
            break
        one.send(COMMENT)
        await asyncio.sleep(0.05)
    answer = await client.answer()
    assert answer.status == 504
    assert b"sent nothing for 0.3 s" in answer.body
    assert answer.get(b"x-switchyard-retries") == [b"1"]


@pytest.mark.parametrize("whole_chunks", [True, False])
@pytest.mark.parametrize("continuation", ["off", "auto"])
async def test_comments_are_no_progress(
    fleet: SilentFleet, client: Client, whole_chunks: bool, continuation: str
) -> None:
    fleet.follow(first_token_limit_s="off", continuation=continuation, timeouts=Timeouts(idle_s=0.5))
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE, event(content="hi"))
    for _ in range(60):
        if one.given_up:
            break
        # Two at once are no passing chunk.
        one.send(*[COMMENT] * (1 if whole_chunks else 2))
        await asyncio.sleep(0.05)
    assert one.given_up
    answer = await client.answer()
    assert not answer.complete
    assert b"stopped sending for 0.5 s" in answer.body


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_plain_answer_is_whole_or_comes_from_another_replica(
    fleet: SilentFleet, client: Client, framing: str
) -> None:
    client.send(request(stream=False))
    first = await fleet.asked()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    if framing == "length":
        first.write(head + b"Content-Length: %d\r\n\r\n" % len(PLAIN) + PLAIN[:40])
    else:
        first.write(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(PLAIN[:40]))
    await asyncio.sleep(0.05)
    lose(first)
    second = await fleet.asked()
    assert second.name != first.name
    second.write(head + b"Content-Length: %d\r\n\r\n" % len(PLAIN) + PLAIN)
    answer = await client.answer()
    assert answer.body == PLAIN
    assert fleet.counters.retries == 1


async def test_a_plain_answer_in_chunks_is_forwarded_with_its_length(
    fleet: SilentFleet, client: Client
) -> None:
    client.send(request(stream=False))
    one = await fleet.asked()
    one.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(PLAIN[:40]))
    await asyncio.sleep(0.05)
    one.write(chunk(PLAIN[40:]) + b"0\r\n\r\n")
    answer = await client.answer()
    assert answer.body == PLAIN
    assert answer.get(b"content-length") == [b"%d" % len(PLAIN)]


async def test_a_plain_answer_that_stalls_is_not_waited_for(fleet: SilentFleet, client: Client) -> None:
    """It comes from another replica. If no other is left, the client hears why."""
    fleet.follow(first_token_limit_s="off", timeouts=Timeouts(idle_s=0.3))
    client.send(request(stream=False))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(PLAIN)
    first = await fleet.asked()
    first.write(head + PLAIN[:40])
    second = await fleet.asked()
    assert second.name != first.name
    assert first.given_up
    second.write(head + PLAIN[:40])
    answer = await client.answer()
    assert answer.status == 504
    assert b"stopped sending for 0.3 s" in answer.body


async def test_one_without_a_length_is_not_held(fleet: SilentFleet, client: Client) -> None:
    """Its end is that of its connection: nothing would tell a whole one."""
    client.send(request(stream=False))
    one = await fleet.asked()
    one.write(b"HTTP/1.1 200 OK\r\n\r\n" + PLAIN[:40])
    async with asyncio.timeout(held_beginning.HELD_S / 2):
        await client.reader.readuntil(PLAIN[:40])
    one.write(PLAIN[40:])
    one.connection.transport.close()
    async with asyncio.timeout(LIMIT_S):
        assert (await client.reader.readuntil(b"0\r\n\r\n")).find(PLAIN[40:]) > 0


@pytest.mark.parametrize("cut", [0, 1, 3, 30])
async def test_a_whole_response_that_breaks_off_in_its_json(
    fleet: SilentFleet, client: Client, cut: int
) -> None:
    """White space behind the object is none."""
    client.send(request(stream=False))
    fields = b"Content-Type: application/json\r\n"
    first = await fleet.asked()
    first.whole(body=PLAIN[: len(PLAIN) - cut] + b"\n \n", fields=fields)
    if cut:
        second = await fleet.asked()
        assert second.name != first.name
        second.whole(body=PLAIN, fields=fields)
    answer = await client.answer()
    assert answer.status == 200
    assert answer.body.strip() == PLAIN


@pytest.mark.parametrize("event_", [b"data: <html>\n\n", b'data: {"choices": [{"ind\n\n'])
async def test_a_stream_that_begins_with_no_event(fleet: SilentFleet, client: Client, event_: bytes) -> None:
    client.send(request())
    first = await fleet.asked()
    first.begin(ROLE, event_)
    second = await fleet.asked()
    assert second.name != first.name
    await until(lambda: first.given_up)
    second.answer("hi")
    assert (await client.answer()).body.endswith(END)


async def test_after_a_second_comments_are_still_no_first_byte(fleet: SilentFleet, client: Client) -> None:
    fleet.follow(first_token_limit_s="off", timeouts=Timeouts(first_byte_s=1.5, idle_s=60))
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE)
    while not one.given_up:
        one.send(COMMENT)
        await asyncio.sleep(0.05)
    answer = await client.answer()
    assert b"sent no content for 1.5 s" in answer.body
    assert not answer.complete
    assert not fleet.replica(one).first_byte


@pytest.mark.parametrize("continuation", ["off", "auto"])
async def test_a_truncated_stream_is_told_where_nothing_is_kept_of_it(
    rig: Rig, fleet: SilentFleet, client: Client, continuation: str
) -> None:
    fleet.follow(first_token_limit_s="off", continuation=continuation)
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE, event(content="hi"))
    await client.reader.readuntil(b'"hi"')
    total = rig.proxy.bodies.total
    rig.proxy.bodies.set(8)
    rig.proxy.bodies.set(total)
    one.send(event(content="ho"))
    one.write(b"0\r\n\r\n")
    async with asyncio.timeout(LIMIT_S):
        rest = await client.reader.read()
    assert b'"truncated"' in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_a_long_plain_answer_is_forwarded_as_it_comes(fleet: SilentFleet, client: Client) -> None:
    client.send(request(stream=False))
    one = await fleet.asked()
    size = held_beginning.MOST_HELD_BYTES + 1
    one.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"{" + b" " * (size - 1)))
    async with asyncio.timeout(LIMIT_S):
        await client.reader.readuntil(b"{")
    lose(one)
    await client.reader.read()
    assert not fleet.asked_more


@pytest.mark.parametrize("why", ["never", "generic", "state"])
async def test_what_may_not_be_sent_twice_is_not_held(fleet: SilentFleet, client: Client, why: str) -> None:
    fleet.follow(
        "generic" if why == "generic" else "openai",
        first_token_limit_s="off",
        retries=Retries(replay_safe="never") if why == "never" else Retries(),
    )
    path = b"/fleets/f/v1/files" if why == "state" else b"/fleets/f/v1/chat/completions"
    client.send(request(path=path))
    one = await fleet.asked()
    one.write(HEAD)
    async with asyncio.timeout(held_beginning.HELD_S / 2):
        head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    close(one)
    await client.reader.read()
    assert not fleet.asked_more


async def test_a_client_that_leaves_ends_it(rig: Rig, fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    one = await fleet.asked()
    one.begin(ROLE)
    await until(lambda: rig.proxy.bodies.kept.used == len(ROLE))
    client.abort()
    await until(lambda: one.given_up)
    assert rig.proxy.bodies.kept.used == 0
    assert fleet.counters.cancelled == 1
    assert not fleet.asked_more
