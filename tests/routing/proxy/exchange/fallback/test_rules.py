"""What keeps a request from falling back, how far it goes, and what is said of it."""

from __future__ import annotations

import asyncio
import json
from itertools import chain, repeat
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from routing.contract.exposure import Expose
from routing.contract.table import FleetSnapshot
from routing.ipc.access_log import AccessLine
from tests.routing.proxy.exchange.fallback.two_fleets import (
    CHAT_PATH,
    LOST,
    Two,
    ask,
    chat,
    error,
    model_asked,
    policy,
    says,
    served_by_small,
    silent,
    to,
    two_fleets,
)
from tests.routing.proxy.rig import (
    INFER_BODY,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    answer_body,
    answer_bytes,
    until,
)

KEY = new_key().encode()
SALT = new_salt()


def let_in(rig: Rig, *fleets: str) -> bytes:
    """The key's field; it is for these fleets."""
    rig.keys(SALT, {key_hash(salt_bytes(SALT), KEY): list(fleets)})
    return b"Authorization: Bearer %b\r\n" % KEY


def no_fallback(two: Two) -> dict[str, int]:
    reasons: dict[str, int] = two.counters("large").no_fallback
    return reasons


def lose_the_first(replicas: list[Replica]) -> None:
    """Of the requests to any of them."""
    scripts = chain((LOST,), repeat(says))

    async def first_lost(connection: ReplicaConnection, seen: Seen) -> None:
        await next(scripts)(connection, seen)

    for replica in replicas:
        replica.script = first_lost


async def failing(rig: Rig, **fields: Any) -> Two:
    two = await two_fleets(rig, **fields)
    for replica in two.large:
        replica.script = error(503)
    return two


async def stays(two: Two, why: str, **more: Any) -> None:
    """The first fleet's error goes to the client."""
    answer = await ask(await two.rig.client(), **more)
    assert (answer.status, answer.body) == (503, b"no")
    assert not answer.get(b"x-switchyard-fleet")
    assert not any(replica.requests for replica in two.small)
    assert no_fallback(two) == {why: 1}
    two.check(1, 0)


# --- keys --------------------------------------------------------------------------------------------


async def test_a_key_for_one_fleet(rig: Rig) -> None:
    two = await failing(rig)
    await stays(two, "key", fields=let_in(rig, "large"))


async def test_a_key_for_both(rig: Rig) -> None:
    await failing(rig)
    field = let_in(rig, "large", "small")
    served_by_small(await ask(await rig.client(), fields=field), "replicas_failed")


async def test_a_key_for_one_where_the_fallback_is_included(rig: Rig) -> None:
    two = await failing(rig, fallback=[to(included=True)])
    field = let_in(rig, "large")
    client = await rig.client()
    served_by_small(await ask(client, fields=field), "replicas_failed")
    assert (await ask(client, model="small", fields=field)).status == 403
    # It stays in force when the keys are looked at again, and is gone with the key.
    two.small[0].script = silent
    client.send(chat(fields=field))
    await until(lambda: len(two.small[0].requests) == 2)
    let_in(rig, "large", "other")
    await asyncio.sleep(0.05)
    assert two.counters("small").in_flight == 1
    rig.keys(SALT, {})
    assert (await client.answer()).status in (401, 403)


# --- the budget --------------------------------------------------------------------------------------


async def test_the_budget_is_used_up(rig: Rig) -> None:
    two = await failing(rig, fallback_budget_percent=0)
    await stays(two, "budget")


async def test_the_budget_has_a_floor(rig: Rig) -> None:
    """Twenty seconds' worth of two a second, and a tenth of the requests."""
    two = await failing(rig, fallback_budget_percent=10, ejection={"consecutive_failures": 1000})
    client = await rig.client()
    answers = [await ask(client) for _ in range(60)]
    fell = [bool(answer.get(b"x-switchyard-fleet")) for answer in answers]
    assert fell == [True] * 45 + [False] * 5 + [True] + [False] * 9
    assert {answer.status for answer in answers} == {200, 503}
    assert no_fallback(two) == {"budget": 14}
    two.check(60, 46, "replicas_failed")


# --- how far -----------------------------------------------------------------------------------------


async def test_two_extra_attempts_in_all(rig: Rig) -> None:
    """Retries and fallbacks together: three replicas at most have had the request."""
    two = await two_fleets(rig, 4, 2, retries={"statuses": [503], "budget_percent": 100})
    for replica in (*two.large, *two.small):
        replica.script = error(503)
    answer = await ask(await rig.client())
    assert answer.status == 503
    assert sum(len(replica.requests) for replica in (*two.large, *two.small)) == 3
    assert no_fallback(two) == {"attempts": 1}


async def test_after_one_retry_the_other_fleet_is_tried_once(rig: Rig) -> None:
    two = await two_fleets(rig, 2, 2)
    for replica in (*two.large, *two.small):
        replica.script = LOST
    answer = await ask(await rig.client())
    assert answer.status == 502
    assert [len(replica.requests) for replica in two.large] == [1, 1]
    assert sum(len(replica.requests) for replica in two.small) == 1
    assert answer.get(b"x-switchyard-fleet") == [b"small"]
    two.check(1, 1, "replicas_failed")
    assert two.counters("small").errors == 1


async def test_the_other_fleet_retries_too(rig: Rig) -> None:
    two = await two_fleets(rig, 1, 2)
    two.large[0].script = LOST
    lose_the_first(two.small)
    answer = await ask(await rig.client())
    served_by_small(answer, "replicas_failed")
    assert answer.get(b"x-switchyard-retries") == [b"1"]
    assert answer.get(b"x-switchyard-retry-reason") == [b"replica_lost"]


async def test_replicas_that_are_not_reached_are_no_attempts(rig: Rig) -> None:
    two = await two_fleets(rig, 4, 3)
    for replica in two.large:
        await replica.stop()
    lose_the_first(two.small)
    served_by_small(await ask(await rig.client()), "replicas_failed")


async def third(rig: Rig, two: Two, *causes: str) -> Replica:
    """``large`` falls back to ``small``, then to ``third``; ``small`` of its own would go to ``fourth``."""
    replica, fourth = await rig.replica("third"), await rig.replica("fourth")
    replica.script = fourth.script = says
    rig.fleet(replica, name="third", protocol="openai", policy=policy(), default=False)
    rig.fleet(fourth, name="fourth", protocol="openai", policy=policy(), default=False)
    rig.fleet(
        *two.large,
        name="large",
        protocol="openai",
        policy=policy(to("small"), to("third", *causes), retries={"budget_percent": 0}),
    )
    rig.fleet(*two.small, name="small", protocol="openai", policy=policy(to("fourth")), default=False)
    return replica


async def test_the_next_of_the_list(rig: Rig) -> None:
    two = await failing(rig)
    replica = await third(rig, two)
    two.small[0].script = error(503)
    answer = await ask(await rig.client())
    assert answer.status == 200
    assert answer.get(b"x-switchyard-fleet") == [b"third"]
    assert answer.get(b"x-switchyard-model") == [b"third"]
    assert answer.get(b"x-switchyard-fallback") == [b"replicas_failed"]
    assert model_asked(replica) == "third"
    assert two.counters("large").fallbacks == {
        "small": {"replicas_failed": 1},
        "third": {"replicas_failed": 1},
    }
    assert [two.counters(name).requests for name in ("large", "small", "third", "fourth")] == [1, 1, 1, 0]
    assert two.counters("small").fallbacks == {}


async def test_the_list_of_the_fallback_is_not_looked_at(rig: Rig) -> None:
    two = await failing(rig)
    await third(rig, two, "no_place")
    two.small[0].script = error(503)
    answer = await ask(await rig.client())
    assert answer.status == 503
    assert answer.get(b"x-switchyard-fleet") == [b"small"]
    assert two.counters("fourth").requests == 0
    # Of itself it goes there.
    assert (await ask(await rig.client(), model="small")).get(b"x-switchyard-fleet") == [b"fourth"]


async def test_a_fallback_that_has_no_replica_is_passed_over(rig: Rig) -> None:
    two = await failing(rig)
    await third(rig, two)
    rig.fleet(name="small", protocol="openai", policy=policy(), default=False)
    assert (await ask(await rig.client())).get(b"x-switchyard-fleet") == [b"third"]


# --- what stays --------------------------------------------------------------------------------------


async def test_a_fleet_that_is_not_there(rig: Rig) -> None:
    """In a proxy that has an older table, say."""
    two = await failing(rig, fallback=[to("elsewhere"), to("large")])
    await stays(two, "fleet")


async def test_a_fleet_of_another_protocol(rig: Rig) -> None:
    two = await failing(rig)
    rig.fleet(*two.small, name="small", protocol="generic", policy=policy(), default=False)
    await stays(two, "fleet")


async def test_a_fleet_without_a_replica(rig: Rig) -> None:
    two = await failing(rig)
    rig.fleet(name="small", protocol="openai", policy=policy(), default=False)
    await stays(two, "fleet")


async def test_a_body_that_is_too_large_for_the_other_fleet(rig: Rig) -> None:
    two = await failing(rig)
    limits = policy(limits={"max_body_bytes": 20})
    rig.fleet(*two.small, name="small", protocol="openai", policy=limits, default=False)
    await stays(two, "body")


async def test_a_call_that_the_other_fleet_does_not_expose(rig: Rig) -> None:
    two = await failing(rig)
    listed: Expose = ["/v1/embeddings"]
    rig.fleet(*two.small, name="small", protocol="openai", policy=policy(), default=False, expose=listed)
    await stays(two, "fleet")


async def test_a_call_that_it_exposes(rig: Rig) -> None:
    two = await failing(rig)
    rig.fleet(
        *two.small,
        name="small",
        protocol="openai",
        served_model="org/Small",
        policy=policy(),
        default=False,
        expose="inference",
    )
    served_by_small(await ask(await rig.client()), "replicas_failed")


async def test_a_body_that_is_not_kept(rig: Rig) -> None:
    """The fleet is named in the path, so a large body is streamed."""
    two = await failing(rig)
    body = b"x" * 70_000
    head = b"POST /fleets/large%b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n"
    client = await rig.client()
    client.send(head % (CHAT_PATH, len(body)) + body[:1000])
    await asyncio.sleep(0.02)
    client.send(body[1000:])
    answer = await client.answer()
    assert (answer.status, answer.body) == (503, b"no")
    assert no_fallback(two) == {"body": 1}


async def test_a_large_body_that_is_kept(rig: Rig) -> None:
    """It names its fleet, so it is collected."""
    two = await two_fleets(rig)
    two.large[0].script = LOST
    text = "long " * 100_000
    served_by_small(await ask(await rig.client(), prompt=text), "replicas_failed")
    body = json.loads(two.small[0].requests[0].body)
    assert (body["model"], body["prompt"]) == ("org/Small", text)


@pytest.mark.parametrize(
    ("fields", "replay_safe"),
    [({"path": b"/fleets/large/v1/images/generations"}, "auto"), ({}, "never")],
    ids=["call", "policy"],
)
async def test_what_must_not_be_sent_twice(rig: Rig, fields: dict[str, Any], replay_safe: str) -> None:
    two = await two_fleets(rig, retries={"replay_safe": replay_safe})
    two.large[0].script = LOST
    assert (await ask(await rig.client(), **fields)).status == 502
    assert no_fallback(two) == {"not_safe": 1}
    two.large[0].script = error(503)
    assert (await ask(await rig.client(), **fields)).status == 503
    two.check(2, 0)


async def test_what_has_not_been_sent_is_sent_once(rig: Rig) -> None:
    two = await two_fleets(rig, 0, retries={"replay_safe": "never"})
    served_by_small(await ask(await rig.client()), "no_eligible_replica")
    two.check(1, 1, "no_eligible_replica")


@pytest.mark.parametrize("line", [b"GET /fleets/large/v1/x", b"DELETE /fleets/large/v1/files/7"])
async def test_what_is_no_call(rig: Rig, line: bytes) -> None:
    two = await two_fleets(rig, 0)
    answer = await (await rig.client()).ask(line + b" HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.status == 503
    assert no_fallback(two) == {"not_safe": 1}


async def test_stored_responses(rig: Rig) -> None:
    two = await two_fleets(rig, 0)
    assert (await ask(await rig.client(), path=b"/v1/responses", input="hi")).status == 503
    assert no_fallback(two) == {"not_safe": 1}


async def test_a_request_for_an_adapter(rig: Rig) -> None:
    two = await failing(rig)
    rig.fleet(*two.large, name="large", protocol="openai", adapters=("sql",), policy=policy(to()))
    await stays(two, "adapter", model="sql")


async def test_an_encoded_body(rig: Rig) -> None:
    two = await failing(rig)
    path = b"/fleets/large" + CHAT_PATH
    await stays(two, "body", path=path, fields=b"Content-Encoding: gzip\r\n")


async def test_after_an_informational_response(rig: Rig) -> None:
    two = await two_fleets(rig)
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    two.large[0].script = answer_bytes(early + b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno")
    client = await rig.client()
    assert (await ask(client)).status == 103
    assert (await client.answer(b"POST")).status == 503
    two.check(1, 0)


async def test_a_stream_that_has_begun(rig: Rig) -> None:
    two = await two_fleets(rig)
    event = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    two.large[0].script = answer_bytes(head + b"%x\r\n%b\r\n" % (len(event), event), "rst")
    answer = await ask(await rig.client(), True)
    assert not answer.complete
    assert not two.small[0].requests
    assert two.counters("large").fallbacks == {}


# --- other words -------------------------------------------------------------------------------------


async def test_a_fleet_that_is_named_in_the_path(rig: Rig) -> None:
    """Its replicas' own name for the model becomes the other fleet's."""
    two = await failing(rig)
    answer = await ask(await rig.client(), path=b"/fleets/large" + CHAT_PATH, model="org/Large")
    served_by_small(answer, "replicas_failed")
    assert model_asked(two.small[0]) == "org/Small"
    assert two.small[0].requests[0].line == b"POST /v1/chat/completions HTTP/1.1"


@pytest.mark.parametrize(
    "path", [b"/v2/models/digits/infer", b"/fleets/digits/v2/models/own/versions/2/infer"]
)
async def test_open_inference(rig: Rig, path: bytes) -> None:
    large, small = await rig.replica("large0"), await rig.replica("small0")
    large.script, small.script = error(503), answer_body(INFER_BODY)
    rig.fleet(large, name="digits", protocol="open-inference", served_model="own", policy=policy(to("more")))
    rig.fleet(
        small,
        name="more",
        protocol="open-inference",
        served_model="more digits",
        policy=policy(),
        default=False,
    )
    body = b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT8","data":[1]}]}'
    request = b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)
    client = await rig.client()
    for _ in range(2):
        answer = await client.ask(request)
        assert (answer.status, answer.body) == (200, INFER_BODY)
        assert answer.get(b"x-switchyard-fleet") == [b"more"]
        assert answer.get(b"x-switchyard-model") == [b"more%20digits"]
    version = b"/versions/2" if b"versions" in path else b""
    lines = [b"POST /v2/models/more%%20digits%b/infer HTTP/1.1" % version] * 2
    assert [seen.line for seen in small.requests] == lines
    assert [seen.body for seen in small.requests] == [body] * 2
    assert len(large.requests) == 2, "a head that is kept for the connection is as it was"


async def test_a_generic_fleet(rig: Rig) -> None:
    large, small = await rig.replica("large0"), await rig.replica("small0")
    rig.fleet(large, name="large", policy=policy(to()), draining=(large,))
    rig.fleet(small, name="small", policy=policy(), default=False)
    client = await rig.client()
    post = b"POST /predict HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello"
    for request in (post, b"GET /predict?x=1 HTTP/1.1\r\nHost: a.test\r\n\r\n"):
        answer = await client.ask(request)
        assert (answer.status, answer.body) == (200, b"ok")
        assert answer.get(b"x-switchyard-fleet") == [b"small"]
    assert [seen.body for seen in small.requests] == [b"hello", b""]
    # A replica may have begun it, and it may have had an effect.
    rig.fleet(large, name="large", policy=policy(to()))
    large.script = LOST
    assert (await client.ask(post)).status == 502
    assert len(small.requests) == 2


async def test_names_that_the_replica_claims_are_not_forwarded(rig: Rig) -> None:
    two = await two_fleets(rig)
    claims = b"X-Switchyard-Fleet: x\r\nX-Switchyard-Model: y\r\nx-switchyard-fallback: z\r\n"
    two.large[0].script = error(200, b"{}", claims)
    answer = await ask(await rig.client())
    assert not any(name.startswith(b"x-switchyard-f") for name, _ in answer.fields)
    assert not answer.get(b"x-switchyard-model")


# --- its books ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_client_that_leaves_in_between(rig: Rig, stream: bool) -> None:
    two = await failing(rig)
    two.small[0].script = silent
    client = await rig.client()
    client.send(chat(stream))
    await until(lambda: two.small[0].requests)
    client.abort()
    await until(lambda: two.counters("small").cancelled == 1)
    await until(lambda: not two.small[0].open)
    assert two.counters("large").cancelled == 0
    two.check(1, 1, "replicas_failed")


async def test_a_client_that_leaves_while_an_error_is_awaited(rig: Rig) -> None:
    two = await two_fleets(rig)
    two.large[0].script = answer_bytes(b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n")
    client = await rig.client()
    client.send(chat())
    await until(lambda: two.large[0].requests)
    client.abort()
    await until(lambda: two.counters("large").cancelled == 1)
    await until(lambda: not two.large[0].open)
    two.check(1, 0)


async def test_a_second_replica_gives_way(rig: Rig) -> None:
    """It was asked because the first one was silent; then that says that the request is too long."""
    two = await two_fleets(rig, 2, first_token_limit_s=0.1)
    told = asyncio.Event()

    async def late(connection: Any, seen: Any) -> None:
        await told.wait()
        text = b'{"error":{"code":"context_length_exceeded"}}'
        connection.transport.write(b"HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))

    two.large[0].script, two.large[1].script = late, silent
    client = await rig.client()
    client.send(chat(True))
    await until(lambda: all(replica.requests for replica in two.large))
    told.set()
    served_by_small(await client.answer(), "context_length_exceeded", True)
    await until(lambda: not two.large[1].open)
    two.check(1, 1, "context_length_exceeded")


async def test_the_access_log(rig: Rig) -> None:
    lines: list[AccessLine] = []

    class Log:
        def add(self, line: AccessLine) -> None:
            lines.append(line)

    rig.proxy.log_to(Log())  # type: ignore[arg-type]
    two = await failing(rig)
    client = await rig.client()
    served_by_small(await ask(client), "replicas_failed")
    two.large[0].script = says
    await ask(client, model="small")
    assert [(line.fleet, line.asked_fleet, line.fallback, line.replica) for line in lines] == [
        ("small", "large", "replicas_failed", "small0"),
        ("small", "", "", "small0"),
    ]


async def test_an_older_table_has_no_fallbacks(rig: Rig) -> None:
    two = await two_fleets(rig)
    snapshot = rig.table.fleets["large"].snapshot
    raw = msgspec.to_builtins(snapshot)
    del raw["policy"]["fallback"], raw["policy"]["fallback_budget_percent"]
    older = msgspec.convert(json.loads(json.dumps(raw)), FleetSnapshot)
    rig.table.apply_snapshot(replace(older, version=9))
    two.large[0].script = error(503)
    assert (await ask(await rig.client())).status == 503
    two.check(1, 0)
