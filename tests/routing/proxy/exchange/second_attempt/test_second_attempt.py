"""A request whose replica is silent is sent to a second one as well, over real connections; the first to
answer is the answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from routing.contract.policy import Retries, Timeouts
from routing.contract.table import KeyLimits
from routing.ipc.access_log import AccessLog
from routing.proxy.exchange import held_beginning
from tests.routing.proxy.auth.key_limits.limited_keys import KEY, in_force
from tests.routing.proxy.exchange.second_attempt.attempts import (
    COMMENT,
    LATE_S,
    ROLE,
    SilentFleet,
    event,
    request,
)
from tests.routing.proxy.rig import LIMIT_S, Client, ReplicaConnection, Rig, until


@pytest.fixture
async def fleet(rig: Rig) -> SilentFleet:
    return await SilentFleet(rig).start()


@pytest.fixture
async def client(rig: Rig) -> Client:
    return await rig.client()


async def some_ticks() -> None:
    """Time enough for what must not happen."""
    await asyncio.sleep(3 * LATE_S)


async def test_the_second_answers_and_the_silent_one_is_given_up(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    assert first.replica is not second.replica
    assert first.seen.body == second.seen.body
    second.answer("two")
    answer = await client.answer(b"POST")
    assert answer.complete
    assert b'"two"' in answer.body
    assert answer.get(b"x-switchyard-replica") == [second.name]
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    assert answer.get(b"x-switchyard-retry-reason") == [b"first_token_limit"]
    await until(lambda: first.given_up)
    assert fleet.counters.second_attempts == {"won": 1}
    assert fleet.counters.retries == 0
    assert fleet.counters.answered == 1
    assert fleet.replica(first).outcomes.beaten == 1
    assert fleet.replica(first).outcomes.cancelled == fleet.replica(first).failed == 0
    assert fleet.replica(second).succeeded == 1


async def test_the_first_answers_and_the_second_is_given_up(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    first.answer("one")
    answer = await client.answer(b"POST")
    assert b'"one"' in answer.body
    assert answer.get(b"x-switchyard-replica") == [first.name]
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    await until(lambda: second.given_up)
    assert fleet.counters.second_attempts == {"lost": 1}
    assert fleet.replica(first).succeeded == 1
    assert fleet.replica(second).outcomes.cancelled == 1
    assert fleet.replica(second).failed == 0


async def test_streams_go_on_as_they_come(fleet: SilentFleet, client: Client) -> None:
    """What the second sends after its first content is not held back."""
    client.send(request())
    await fleet.asked()
    second = await fleet.asked()
    second.begin(ROLE, event(content="a"))
    assert b'"a"' in await client.reader.readuntil(b'"a"')
    for number in range(5):
        second.send(event(content=f"b{number}"))
        await client.reader.readuntil(b'"b%d"' % number)
    second.end()
    await client.reader.readuntil(b"\r\n0\r\n\r\n")


async def test_comments_heads_and_roles_of_the_second_are_no_answer(
    fleet: SilentFleet, client: Client
) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    second.begin(COMMENT, ROLE)
    second.send(COMMENT)
    await some_ticks()
    assert fleet.counters.second_attempts == {}
    first.answer("one")
    assert b'"one"' in (await client.answer(b"POST")).body
    await until(lambda: second.given_up)


async def test_comments_heads_and_roles_of_the_first_are_no_answer(
    fleet: SilentFleet, client: Client
) -> None:
    client.send(request())
    first = await fleet.asked()
    first.begin(COMMENT, ROLE)
    first.send(COMMENT)
    second = await fleet.asked()
    first.send(COMMENT)
    second.answer("two")
    answer = await client.answer(b"POST")
    assert answer.get(b"x-switchyard-replica") == [second.name]
    assert answer.body.startswith(ROLE + event(content="two"))
    await until(lambda: first.given_up)
    assert fleet.replica(first).outcomes.beaten == 1


async def test_a_first_that_has_begun_may_still_answer_first(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first = await fleet.asked()
    first.begin(COMMENT, ROLE)
    second = await fleet.asked()
    second.begin(ROLE)
    first.send(event(content="one"))
    first.end()
    answer = await client.answer(b"POST")
    assert answer.get(b"x-switchyard-replica") == [first.name]
    assert answer.body.startswith(COMMENT + ROLE + event(content="one"))
    await until(lambda: second.given_up)
    assert fleet.counters.second_attempts == {"lost": 1}


async def test_the_beginning_is_held_for_as_long_as_a_second_may_replace_it(
    rig: Rig, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no longer where there is none."""
    monkeypatch.setattr(held_beginning, "HELD_S", 0.01)
    fleet = await SilentFleet(rig).start(2, first_token_limit_s=0.4)
    client.send(request())
    first = await fleet.asked()
    first.begin(ROLE)
    second = await fleet.asked()
    second.answer("two")
    assert (await client.answer(b"POST")).get(b"x-switchyard-replica") == [second.name]
    fleet.follow(first_token_limit_s=0.4, retries=Retries(budget_percent=0))
    client.send(request())
    only = await fleet.asked()
    only.begin(ROLE)
    assert only.name in await client.reader.readuntil(b"\r\n\r\n")
    assert fleet.counters.not_sent_twice == {"budget": 1}
    only.send(event(content="one"))
    only.end()
    await client.reader.readuntil(b"\r\n0\r\n\r\n")


async def test_a_plain_answer_that_comes_in_pieces_is_not_late(rig: Rig, client: Client) -> None:
    """A stream was asked for, and none is sent."""
    fleet = await SilentFleet(rig).start()
    client.send(request())
    first = await fleet.asked()
    first.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n")
    await some_ticks()
    assert not fleet.asked_more
    first.write(b'{"choices": [{"message": {"content": "one"}}]}'.ljust(60))
    assert b'"one"' in (await client.answer(b"POST")).body


async def test_what_came_before_content_is_in_the_answer(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    await fleet.asked()
    second = await fleet.asked()
    second.begin(COMMENT, ROLE)
    second.send(event(content="two"))
    second.end()
    body = (await client.answer(b"POST")).body
    assert body.startswith(COMMENT + ROLE + event(content="two"))


@pytest.mark.parametrize("begun", [False, True])
async def test_where_the_first_fails_the_second_is_its_retry(
    fleet: SilentFleet, client: Client, begun: bool
) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    if begun:
        second.begin(COMMENT, ROLE)
    first.lose()
    await until(lambda: fleet.counters.second_attempts == {"won": 1})
    if begun:
        second.send(event(content="two"))
        second.end()
    else:
        second.answer("two")
    answer = await client.answer(b"POST")
    assert b'"two"' in answer.body
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    assert not fleet.asked_more
    assert fleet.replica(first).failed == 1


@pytest.mark.parametrize("status", ["500 Oops", "504 Late", "429 Busy", "404 Gone"])
async def test_errors_of_the_first_are_not_forwarded(fleet: SilentFleet, client: Client, status: str) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    first.whole(status)
    second.answer("two")
    assert b'"two"' in (await client.answer(b"POST")).body
    assert not fleet.asked_more


async def test_what_is_wrong_with_the_request_is_an_answer(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    second.whole("400 Bad Request", b'{"error": {"code": "context_length_exceeded"}}')
    answer = await client.answer(b"POST")
    assert answer.status == 400
    assert b"context_length_exceeded" in answer.body
    await until(lambda: first.given_up)


@pytest.mark.parametrize("how", ["503 Busy", "lost"])
async def test_a_second_that_fails_is_followed_by_a_third_and_no_fourth(
    rig: Rig, client: Client, how: str
) -> None:
    fleet = await SilentFleet(rig).start(4)
    client.send(request())
    first = await fleet.asked()
    for _ in range(2):
        other = await fleet.asked()
        if how == "lost":
            other.lose()
        else:
            other.whole(how)
    await until(lambda: fleet.counters.second_attempts == {"failed": 2})
    await until(lambda: fleet.counters.not_sent_twice == {"attempts": 1})
    first.lose()
    answer = await client.answer(b"POST")
    assert answer.status == 502
    assert answer.get(b"x-switchyard-retries") == [b"2"]
    assert not fleet.asked_more


async def test_both_fail(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    first.lose()
    await until(lambda: fleet.counters.second_attempts == {"won": 1})
    second.lose()
    answer = await client.answer(b"POST")
    assert answer.status == 502
    assert fleet.counters.errors == 1
    assert not fleet.asked_more


async def test_retries_and_second_attempts_are_counted_together(rig: Rig, client: Client) -> None:
    fleet = await SilentFleet(rig).start(5)
    client.send(request())
    (await fleet.asked()).whole("503 Busy")
    retried, second = await fleet.asked(), await fleet.asked()
    second.whole("503 Busy")
    await until(lambda: fleet.counters.not_sent_twice == {"attempts": 1})
    retried.whole("503 Busy")
    answer = await client.answer(b"POST")
    assert answer.status == 503
    assert answer.get(b"x-switchyard-retries") == [b"2"]
    assert not fleet.asked_more


async def test_a_second_that_is_not_reached_costs_no_attempt(rig: Rig, client: Client) -> None:
    fleet = await SilentFleet(rig).start(4)
    gone = fleet.replicas[:]
    client.send(request())
    first = await fleet.asked()
    gone.remove(first.replica)
    for one in gone[:2]:
        await one.stop()
    reached = await fleet.asked()
    reached.answer("two")
    assert b'"two"' in (await client.answer(b"POST")).body
    assert fleet.counters.second_attempts["won"] == 1


async def test_a_client_that_leaves_cancels_both(fleet: SilentFleet, client: Client) -> None:
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    client.writer.close()
    await until(lambda: first.given_up and second.given_up)
    assert fleet.counters.second_attempts == {"cancelled": 1}
    assert fleet.counters.cancelled == 1
    assert fleet.replica(first).outcomes.cancelled == fleet.replica(second).outcomes.cancelled == 1


async def test_the_client_s_own_limit_ends_both(fleet: SilentFleet, client: Client) -> None:
    asked = request().replace(b"\r\nHost", b"\r\nX-Request-Timeout-Ms: 400\r\nHost", 1)
    client.send(asked)
    first, second = await fleet.asked(), await fleet.asked()
    assert (await client.answer(b"POST")).status == 504
    await until(lambda: first.given_up and second.given_up)


async def test_the_limit_of_the_whole_request_ends_both(rig: Rig, client: Client) -> None:
    fleet = await SilentFleet(rig).start(timeouts=Timeouts(connect_s=LIMIT_S, total_s=0.5))
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    assert (await client.answer(b"POST")).status == 504
    await until(lambda: first.given_up and second.given_up)
    assert fleet.counters.second_attempts == {"cancelled": 1}


async def test_after_the_first_byte_limit_the_second_goes_on(rig: Rig, client: Client) -> None:
    fleet = await SilentFleet(rig).start(timeouts=Timeouts(connect_s=LIMIT_S, first_byte_s=0.4))
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    await until(lambda: first.given_up)
    second.answer("two")
    assert b'"two"' in (await client.answer(b"POST")).body


async def test_limits_of_keys_count_the_answer_once(rig: Rig, fleet: SilentFleet, client: Client) -> None:
    in_force(rig, KeyLimits(id="web", tokens_per_minute=1000, max_concurrency=2))
    client.send(request().replace(b"\r\nHost", b"\r\nAuthorization: Bearer %b\r\nHost" % KEY, 1))
    await fleet.asked()
    (await fleet.asked()).answer("two")
    assert (await client.answer(b"POST")).complete
    (found,) = rig.proxy.key_quotas.report()
    assert (found.requests, found.in_flight, found.tokens) == (1, 0, 9)


@pytest.mark.parametrize("wins", [True, False])
async def test_the_access_log_says_what_became_of_it(
    rig: Rig, client: Client, tmp_path: Path, wins: bool
) -> None:
    log = AccessLog(str(tmp_path / "access.log"), "json", "proxy/worker/0")
    rig.proxy.log_to(log)
    fleet = await SilentFleet(rig).start()
    client.send(request())
    first, second = await fleet.asked(), await fleet.asked()
    answers = second if wins else first
    answers.answer("one")
    await client.answer(b"POST")
    await until(lambda: (tmp_path / "access.log").read_text())
    log.close()
    line = json.loads((tmp_path / "access.log").read_text())
    assert line["replica"].encode() == answers.name
    assert (line["retries"], line["second"]) == (1, "won" if wins else "lost")


async def test_a_large_body_is_sent_twice(fleet: SilentFleet, client: Client) -> None:
    text = "x" * 1_000_000
    client.send(request(path=b"/v1/chat/completions", messages=[{"role": "user", "content": text}]))
    first, second = await fleet.asked(), await fleet.asked()
    assert len(first.seen.body) == len(second.seen.body) > len(text)
    second.answer("two")
    assert (await client.answer(b"POST")).complete


async def test_an_idle_connection_that_the_second_replica_closes_is_no_failure(
    fleet: SilentFleet, client: Client
) -> None:
    for _ in range(len(fleet.replicas)):
        client.send(request())
        (await fleet.asked()).answer("warm")
        await client.answer(b"POST")
    client.send(request())
    first = await fleet.asked()

    def close(connection: ReplicaConnection, data: bytes) -> None:
        connection.tunnel = True  # what came is no request
        connection.replica.on_data = None
        connection.transport.abort()

    for one in fleet.replicas:
        if one is not first.replica:
            one.on_data = close
    second = await fleet.asked()
    assert len(second.replica.connections) == 2
    second.answer("two")
    assert b'"two"' in (await client.answer(b"POST")).body
    assert fleet.counters.second_attempts == {"won": 1}


@pytest.mark.parametrize(
    "why",
    ["off", "stateful", "never", "generic", "plain", "uploading"],
)
async def test_is_never_sent_twice(rig: Rig, client: Client, why: str) -> None:
    policy: dict[str, Any] = {
        "off": {"first_token_limit_s": "off"},
        "never": {"retries": Retries(replay_safe="never")},
    }.get(why, {})
    fleet = await SilentFleet(rig).start(protocol="generic" if why == "generic" else "openai", **policy)
    path = b"/fleets/f/v1/responses" if why == "stateful" else b"/fleets/f/v1/chat/completions"
    asked = request(stream=why != "plain", path=path)
    if why == "uploading":
        head, _, body = asked.partition(b"\r\n\r\n")
        body += b" " * 9_000_000  # more than is collected
        asked = head.partition(b"\r\nContent-Length")[0] + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        asked += body
    client.send(asked)
    first = await fleet.asked()
    await some_ticks()
    assert not fleet.asked_more
    first.whole()
    assert (await client.answer(b"POST")).status == 200
    assert fleet.counters.second_attempts == fleet.counters.not_sent_twice == {}


async def test_not_while_a_request_waits_in_the_queue(rig: Rig) -> None:
    fleet = await SilentFleet(rig).start(2, max_concurrency=1, first_token_limit_s=0.3)
    clients = [await rig.client() for _ in range(3)]
    for one in clients:
        one.send(request())
    asked = [await fleet.asked(), await fleet.asked()]
    await until(lambda: fleet.counters.not_sent_twice == {"queue": 2})
    for one in asked:
        one.answer("one")
    (await fleet.asked()).answer("three")
    for each in clients:
        assert (await each.answer(b"POST")).complete


async def test_not_in_a_busy_fleet(rig: Rig) -> None:
    """Of four slots besides the own replica's three are taken."""
    fleet = await SilentFleet(rig).start(3, max_concurrency=2, first_token_limit_s=LIMIT_S)
    clients = [await rig.client() for _ in range(5)]
    asked = []
    for one in clients:
        one.send(request())
        asked.append(await fleet.asked())
    fleet.follow(max_concurrency=2)
    await until(lambda: fleet.counters.not_sent_twice.get("busy", 0) >= 3)
    assert not fleet.asked_more or fleet.counters.second_attempts
    for one in asked:
        one.answer("one")
    for each in clients:
        assert (await each.answer(b"POST")).complete


async def test_not_beyond_the_budget(rig: Rig) -> None:
    """Two are saved at first; then a twentieth of the requests."""
    fleet = await SilentFleet(rig).start(10)
    clients = [await rig.client() for _ in range(6)]
    for one in clients:
        one.send(request())
    asked = [await fleet.asked() for _ in range(8)]
    await until(lambda: fleet.counters.not_sent_twice == {"budget": 4})
    assert not fleet.asked_more
    for one in asked:
        one.answer("some")
    for each in clients:
        assert (await each.answer(b"POST")).complete
    assert sum(fleet.counters.second_attempts.values()) == 2


async def test_a_plain_request_by_policy(rig: Rig, client: Client) -> None:
    """After a multiple of what it is predicted to take."""
    fleet = await SilentFleet(rig).start(first_token_limit_s="off", plain_limit_factor=2.0)
    pool = rig.table.fleets["f"]
    for _ in range(2):
        client.send(request(stream=False, max_tokens=8))
        first = await fleet.asked()
        await asyncio.sleep(0.02)
        first.whole(body=b'{"choices": [{"message": {"content": "one"}}]}')
        assert (await client.answer(b"POST")).status == 200
    client.send(request(stream=False, max_tokens=8))
    first = await fleet.asked()
    await some_ticks()
    assert not fleet.asked_more, "nothing is predicted yet"
    for residuals in pool.speed.predictions._completion:
        for _ in range(20):
            residuals.learn(0.0)
    pool.speed.base = 1e-3
    second = await fleet.asked()
    second.whole(body=b'{"choices": [{"message": {"content": "two"}}]}')
    answer = await client.answer(b"POST")
    assert b"two" in answer.body
    assert answer.get(b"x-switchyard-retry-reason") == [b"plain_limit"]
    await until(lambda: first.given_up)


async def test_auto_learns_when_a_stream_is_late(rig: Rig, client: Client) -> None:
    fleet = await SilentFleet(rig).start(first_token_limit_s="auto")
    client.send(request())
    first = await fleet.asked()
    await some_ticks()
    assert not fleet.asked_more, "nothing is known yet"
    first.answer("one")
    await client.answer(b"POST")
    for _ in range(30):
        client.send(request())
        (await fleet.asked()).answer("quick")
        await client.answer(b"POST")
    # The first one was not quick; it alone does not make the 99th percentile once there are 100.
    seconds = rig.table.fleets["f"].seconds
    assert LATE_S <= seconds.stream_limit_s(1.0) < 1.0
    client.send(request())
    await fleet.asked()
    (await fleet.asked()).answer("two")
    assert b'"two"' in (await client.answer(b"POST")).body
