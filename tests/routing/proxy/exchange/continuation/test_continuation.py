"""A stream whose replica breaks off is continued by another: the client reads one answer, and it is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from routing.contract.policy import Timeouts
from tests.routing.protocols.continuation.streams import Read, event
from tests.routing.proxy.exchange.continuation.telling import (
    USAGE,
    ask,
    in_pool,
    parts,
    request,
    uninterrupted,
)
from tests.routing.proxy.rig import Client, Rig, until


def counters(rig: Rig) -> Any:
    return rig.table.fleets["f"].counters


@pytest.mark.parametrize("shape", ["vllm", "llama.cpp"])
@pytest.mark.parametrize("breaks", ["rst", "fin", "empty"])
@pytest.mark.parametrize("chat", [True, False])
@pytest.mark.parametrize("events", [1, 4, 5, 8])
async def test_one_answer(rig: Rig, client: Client, shape: str, breaks: str, chat: bool, events: int) -> None:
    """Where the client has got nothing of it, for it only names a role, it is asked for anew."""
    first, second, *_ = await parts(rig, shape, chat)
    first.events, first.breaks = events, breaks
    answer = await ask(client, chat, **USAGE)
    assert answer.complete
    anew = chat and events == 1
    read, whole = Read(answer.body), Read(uninterrupted(first, **USAGE))
    assert read.text == whole.text
    assert read.usages == whole.usages
    assert read.reasons == whole.reasons
    assert read.roles == whole.roles
    assert len(read.envelopes) == 1
    assert anew or read.envelopes == whole.envelopes
    assert read.comments == ([] if anew else [b": continued by another replica"])
    assert len(second.asked) == 1
    assert counters(rig).continued == (0 if anew else 1)
    assert counters(rig).retries == 1
    assert counters(rig).answered == 1
    assert counters(rig).errors == 0


async def test_after_its_reason_its_usage_is_still_fetched(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig)
    first.events = 10
    read = Read((await ask(client, **USAGE)).body)
    assert read.text == first.model.text
    assert read.reasons == ["stop"]
    assert read.usages == Read(uninterrupted(first, **USAGE)).usages
    assert second.asked[0]["max_tokens"] == 1


@pytest.mark.parametrize("partial", [1, 40, 150])
async def test_what_came_of_an_event_in_part_never_goes_to_the_client(
    rig: Rig, client: Client, partial: int
) -> None:
    first, *_ = await parts(rig)
    first.events, first.partial = 4, partial
    answer = await ask(client)
    assert answer.complete
    assert Read(answer.body).text == first.model.text


async def test_the_client_s_limit_holds_for_both_parts(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig)
    first.events = 4
    answer = await ask(client, max_tokens=5, **USAGE)
    read = Read(answer.body)
    assert read.text == "one two three\n\nfour"
    assert read.reasons == ["length"]
    assert read.usages == [{"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}]
    assert second.asked[0]["max_tokens"] == 2
    assert second.asked[0]["seed"] == 3


async def test_two_seams(rig: Rig, client: Client) -> None:
    """And no third: two extra attempts are all that a request has."""
    told = await parts(rig, count=4)
    told[0].events = told[1].events = 4
    answer = await ask(client, **USAGE)
    assert Read(answer.body).text == told[0].model.text
    assert Read(answer.body).usages == Read(uninterrupted(told[0], **USAGE)).usages
    assert counters(rig).continued == 2
    for part in told:
        part.events = 3
    answer = await ask(client)
    assert not answer.complete
    assert counters(rig).not_continued == {"attempts": 1}


async def test_after_its_reason_only_its_end_is_missing(rig: Rig, client: Client) -> None:
    """No other replica is asked for ``[DONE]`` alone."""
    first, second, *_ = await parts(rig)
    first.events = 10
    answer = await ask(client)
    assert answer.complete
    assert Read(answer.body).text == first.model.text
    assert not second.asked


@pytest.mark.parametrize(
    ("fields", "cause"),
    [({"n": 2}, "choices"), ({"response_format": {"type": "json_object"}}, "guided")],
)
async def test_what_cannot_be_continued_ends_with_an_error_event(
    rig: Rig, client: Client, fields: dict[str, Any], cause: str
) -> None:
    first, second, *_ = await parts(rig)
    first.events = 4
    answer = await ask(client, **fields)
    assert not answer.complete
    assert b"[DONE]" not in answer.body
    *_, last = answer.body[:-2].split(b"\n\n")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "bad_response"
    assert not second.asked
    assert counters(rig).not_continued == {cause: 1}


@pytest.mark.parametrize("continuation", ["auto", "off"])
async def test_an_older_client_is_told_as_well(rig: Rig, client: Client, continuation: str) -> None:
    first, *_ = await parts(rig, continuation=continuation)
    first.events = 4
    client.send(request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer = await client.answer(b"POST")
    *_, last = answer.body[:-2].split(b"\n\n")
    assert not answer.complete
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "bad_response"


@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("breaks", ["empty", "rst"])
async def test_an_error_event_of_the_replica_is_the_only_one(
    rig: Rig, client: Client, breaks: str, continues: bool
) -> None:
    """Be it the first, or the one that goes on."""
    told = await parts(rig, count=3)
    told[0].events = 4
    fails = told[1] if continues else told[0]
    fails.events, fails.breaks, fails.error = 3, breaks, event({"error": {"message": "dead", "code": 500}})
    answer = await ask(client)
    assert answer.body.count(b'"error"') == 1
    assert b'"dead"' in answer.body
    assert b"[DONE]" not in answer.body
    assert answer.complete is (breaks == "empty" and not continues)


@pytest.mark.parametrize("why", ["version", "trial"])
async def test_a_replica_of_another_version_or_without_a_passed_trial_is_not_asked(
    rig: Rig, client: Client, why: str
) -> None:
    first, second, *_ = await parts(rig)
    first.events = 4
    one, other = in_pool(rig)
    if why == "version":
        one.spec = replace(one.spec, version="2")
    else:
        one.continuation.chats = other.continuation.chats = False
    assert not (await ask(client)).complete
    assert not second.asked
    assert counters(rig).not_continued == {"no_replica": 1}


async def test_a_replica_that_refuses(rig: Rig, client: Client) -> None:
    told = await parts(rig, count=3)
    told[0].events = 4
    for part in told[1:]:
        part.refuses = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}"
    answer = await ask(client)
    assert not answer.complete
    assert b"refused it" in answer.body
    assert counters(rig).not_continued == {"refused": 1}
    assert sum(len(part.asked) for part in told) == 2


async def test_a_silent_replica_is_left(rig: Rig, client: Client) -> None:
    timeouts = Timeouts(connect_s=10, idle_s=0.3)
    first, *_ = await parts(rig, timeouts=timeouts)
    first.events, first.breaks = 4, "silent"
    answer = await ask(client)
    assert answer.complete
    assert Read(answer.body).text == first.model.text
    assert counters(rig).continued == 1


async def test_one_that_is_gone_by_then_takes_no_attempt(rig: Rig, client: Client) -> None:
    told = await parts(rig, count=3)
    told[0].events = 4
    told[0].may_break.clear()
    client.send(request())
    await told[0].told.wait()
    idle = [one for one, known in zip(rig.replicas[1:], in_pool(rig), strict=True) if not known.in_flight]
    await idle[0].stop()
    told[0].may_break.set()
    answer = await client.answer(b"POST")
    assert answer.complete
    assert Read(answer.body).text == told[0].model.text


async def test_without_the_policy_the_answer_ends_there(rig: Rig, client: Client) -> None:
    first, second, *_ = await parts(rig, continuation="off")
    first.events = 4
    answer = await ask(client)
    assert not answer.complete
    assert not second.asked
    assert counters(rig).not_continued == {}


async def test_the_memory_gives_way_to_bodies(rig: Rig, client: Client) -> None:
    """And the stream goes on, without being kept."""
    first, second, *_ = await parts(rig)
    first.events = 4
    first.may_break.clear()
    client.send(request())
    await first.told.wait()
    budget = rig.proxy.bodies
    await until(lambda: budget.kept.used > 100)
    total, used = budget.total, budget.used
    budget.set(8)
    assert budget.kept.used == 0
    assert budget.used == used
    budget.set(total)
    first.may_break.set()
    answer = await client.answer(b"POST")
    assert not answer.complete
    assert not second.asked
    assert counters(rig).not_continued == {"memory": 1}
