"""Limits of client keys at the proxy: what is refused, in which words, and that every way out gives back."""

import asyncio
import gzip
import json
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec.structs import replace

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from routing.contract.policy import Policy, Queue, Timeouts
from routing.contract.table import KeyLimits
from routing.contract.telemetry import KeyCounters
from routing.proxy import ProxySettings
from tests.clock import Clock
from tests.routing.proxy.rig import (
    OK,
    OK_ANSWER,
    Client,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    StartRig,
    answer_bytes,
    unreachable,
    until,
)

KEY, OTHER = new_key().encode(), new_key().encode()
SALT = new_salt()
HASH, OTHER_HASH = (key_hash(salt_bytes(SALT), key) for key in (KEY, OTHER))
ONE_MINUTE = KeyLimits(id="web", requests_per_minute=2)


def in_force(rig: Rig, limits: KeyLimits, fleets: tuple[str, ...] = ("*",)) -> None:
    """One key with these limits, and one without any."""
    rig.keys(SALT, {HASH: list(fleets), OTHER_HASH: ["*"]}, {HASH: limits})


def request(
    path: bytes = b"/v1/chat/completions",
    body: bytes = b'{"model": "f", "messages": []}',
    *fields: bytes,
    key: bytes = KEY,
    method: bytes = b"POST",
) -> bytes:
    head = (b"Host: a.test", b"Authorization: Bearer " + key, *fields)
    length = (b"Content-Length: %d" % len(body),) if body or method == b"POST" else ()
    return b"\r\n".join((b"%b %b HTTP/1.1" % (method, path), *head, *length)) + b"\r\n\r\n" + body


def get(path: bytes = b"/", *fields: bytes, key: bytes = KEY) -> bytes:
    return request(path, b"", *fields, key=key, method=b"GET")


def counters(rig: Rig) -> KeyCounters:
    (found,) = rig.proxy.key_quotas.report()
    return found


@pytest.fixture
async def rig(start_rig: StartRig) -> Rig:
    return await start_rig(ProxySettings())


@pytest.fixture
async def replica(rig: Rig) -> Replica:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    return replica


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the windows; everything else goes by the real one."""
    clock = Clock(1000.5)
    from routing.shared import key_quotas

    monkeypatch.setattr(key_quotas, "KeyQuota", partial(key_quotas.KeyQuota, clock=clock))
    return clock


# --- requests per minute ---------------------------------------------------------------------------


async def test_what_is_over_the_limit_is_told_what_and_until_when(
    rig: Rig, replica: Replica, clock: Clock
) -> None:
    in_force(rig, ONE_MINUTE)
    client = await rig.client()
    clock.now = 1000.5
    assert (await client.ask(request())).status == 200
    clock.now = 1010.25
    assert (await client.ask(request())).status == 200
    clock.now = 1020.75
    answer = await client.ask(request())
    assert answer.status == 429
    assert answer.get(b"retry-after") == [b"40"]
    assert answer.get(b"x-ratelimit-limit-requests") == [b"2"]
    assert answer.get(b"x-ratelimit-remaining-requests") == [b"0"]
    assert answer.get(b"x-ratelimit-reset-requests") == [b"50s"]
    assert answer.get(b"x-ratelimit-limit-tokens") == []
    error = json.loads(answer.body)["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")
    assert error["message"] == (
        "this client key allows 2 requests per minute, and 2 were let in within the last one: "
        "come back in 40 s"
    )
    assert len(replica.requests) == 2
    # As long as told is enough, and a moment less is not.
    clock.now = 1020.75 + 39
    assert (await client.ask(request())).get(b"retry-after") == [b"1"]
    clock.now = 1020.75 + 40
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).get(b"retry-after") == [b"10"]
    found = counters(rig)
    assert (found.id, found.requests, found.limited, found.in_flight) == ("web", 6, 3, 0)
    assert found.limited_by == {"requests_per_minute": 3}


async def test_neither_fleet_nor_replica_hears_of_it(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(5)] == [200, 429, 429, 429, 429]
    pool = rig.table.fleets["f"]
    assert (pool.counters.requests, pool.counters.answered, pool.counters.errors) == (1, 1, 0)
    assert pool.replicas[0].picked == 1
    assert rig.proxy.rejected == 4


async def test_other_keys_are_not_limited(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).status == 429
    for _ in range(3):
        assert (await client.ask(request(key=OTHER))).status == 200
    assert [found.id for found in rig.proxy.key_quotas.report()] == ["web"]


async def test_in_the_shape_of_anthropics_api(rig: Rig, replica: Replica, clock: Clock) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    message = request(b"/v1/messages", b'{"model": "f", "max_tokens": 5, "messages": []}')
    assert (await client.ask(message)).status == 200
    before = datetime.now(UTC)
    answer = await client.ask(message)
    assert answer.status == 429
    said = json.loads(answer.body)
    assert (said["type"], said["error"]["type"]) == ("error", "rate_limit_error")
    assert "1 requests per minute" in said["error"]["message"]
    assert said["error"]["details"] == {"error_code": "rate_limit_exceeded"}
    assert answer.get(b"anthropic-ratelimit-requests-limit") == [b"1"]
    assert answer.get(b"anthropic-ratelimit-requests-remaining") == [b"0"]
    (resets,) = answer.get(b"anthropic-ratelimit-requests-reset")
    seconds = (datetime.fromisoformat(resets.decode()) - before).total_seconds()
    assert 58 <= seconds <= 62
    assert answer.get(b"retry-after") == [b"60"]


@pytest.mark.parametrize(
    ("path", "protocol"),
    [(b"/v2/models/f/infer", "open-inference"), (b"/fleets/f/anything", "generic")],
)
async def test_in_the_shape_of_the_other_protocols(rig: Rig, path: bytes, protocol: str) -> None:
    rig.fleet(await rig.replica(), protocol=protocol)  # type: ignore[arg-type]
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request(path, b"{}"))).status == 200
    answer = await client.ask(request(path, b"{}"))
    assert answer.status == 429
    said = json.loads(answer.body)
    words = said["error"] if protocol == "open-inference" else said["detail"]
    assert words.startswith("this client key allows 1 requests per minute")


async def test_it_is_told_before_a_byte_of_the_body_has_come(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert (await client.ask(request())).status == 200
    whole = request(body=b"x" * 100_000)
    client.send(whole[: whole.index(b"\r\n\r\n") + 4])
    assert (await client.answer()).status == 429
    other = await rig.client()
    other.send(whole[: whole.index(b"\r\n\r\n") + 4].replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert (await other.answer()).status == 429


async def test_what_the_proxy_answers_by_itself_is_no_use_of_a_key(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1, max_concurrency=1))
    client = await rig.client()
    for _ in range(3):
        assert (await client.ask(get(b"/v1/models"))).status == 200
    assert (await client.ask(request())).status == 200
    assert (await client.ask(request())).status == 429
    assert (await client.ask(get(b"/v1/models"))).status == 200


async def test_limits_change_at_once_and_what_was_used_stays_used(
    rig: Rig, replica: Replica, clock: Clock
) -> None:
    in_force(rig, ONE_MINUTE)
    client = await rig.client()

    async def granted() -> int:
        return [(await client.ask(request())).status for _ in range(10)].count(200)

    assert await granted() == 2
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=5))
    assert await granted() == 3
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    assert await granted() == 0
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=6, priority="low"))
    assert await granted() == 1
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=None))
    assert await granted() == 10
    assert counters(rig).requests == 50


async def test_each_of_several_proxies_holds_to_its_part(rig: Rig, replica: Replica) -> None:
    rig.table.quota_share.change(1, 2)
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=5))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(5)] == [200, 200, 429, 429, 429]
    in_force(rig, KeyLimits(id="web", max_concurrency=3))
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    assert (await (await rig.client()).ask(request())).status == 429
    gate.open()
    assert (await client.answer()).status == 200


async def test_a_key_that_left_and_came_back_begins_anew(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    client = await rig.client()
    assert [(await client.ask(request())).status for _ in range(2)] == [200, 429]
    rig.keys(SALT, {OTHER_HASH: ["*"]})
    assert (await client.ask(request())).status == 401
    assert rig.proxy.key_quotas.report() == []
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=1))
    assert [(await client.ask(request())).status for _ in range(2)] == [200, 429]
    assert counters(rig).requests == 4


# --- tokens per minute -----------------------------------------------------------------------------

THOUSAND = KeyLimits(id="web", tokens_per_minute=1000)


def whole(answer: str) -> bytes:
    return OK + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(answer),
        answer.encode(),
    )


def events(*data: str) -> bytes:
    body = "".join(f"data: {one}\n\n" for one in data).encode()
    return OK + b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    ("path", "said", "tokens"),
    [
        (
            b"/v1/chat/completions",
            '{"usage": {"prompt_tokens": 700, "completion_tokens": 55, "total_tokens": 755}}',
            755,
        ),
        (
            b"/v1/messages",
            '{"usage": {"input_tokens": 30, "cache_read_input_tokens": 9000, "output_tokens": 12}}',
            42,
        ),
        (
            b"/v1/responses",
            '{"usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 5}, '
            '"output_tokens": 87, "output_tokens_details": {"reasoning_tokens": 9}, "total_tokens": 123}}',
            123,
        ),
        (b"/v1/embeddings", '{"data": [], "usage": {"prompt_tokens": 8, "total_tokens": 8}}', 8),
        (b"/v1/rerank", '{"results": [], "usage": {"total_tokens": 56}}', 56),
        (b"/v1/chat/completions", '{"choices": [{"text": "\\"prompt_tokens\\": 900"}]}', 0),
    ],
)
async def test_tokens_are_those_that_answers_report(
    rig: Rig, replica: Replica, clock: Clock, path: bytes, said: str, tokens: int
) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(whole(said))
    assert (await client.ask(request(path))).status == 200
    assert counters(rig).tokens == tokens
    rig.keys(SALT, {HASH: ["*"]}, {HASH: replace(THOUSAND, tokens_per_minute=max(tokens, 1))})
    assert (await client.ask(request(path))).status == (429 if tokens else 200)


async def test_a_used_up_minute_is_told_and_comes_back(rig: Rig, replica: Replica, clock: Clock) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(whole('{"usage": {"prompt_tokens": 600, "completion_tokens": 300}}'))
    assert (await client.ask(request())).status == 200
    clock.now += 10
    assert (await client.ask(request())).status == 200
    clock.now += 5.25
    answer = await client.ask(request())
    assert answer.status == 429
    error = json.loads(answer.body)["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "tokens")
    assert error["message"].startswith("this client key allows 1000 tokens per minute, and 1800 were used")
    # The first request's have gone then, of which 801 suffice.
    assert answer.get(b"retry-after") == [b"%d" % math.ceil(1060 - clock.now)]
    assert answer.get(b"x-ratelimit-limit-tokens") == [b"1000"]
    assert answer.get(b"x-ratelimit-remaining-tokens") == [b"0"]
    assert answer.get(b"x-ratelimit-reset-tokens") == [b"%ds" % math.ceil(1070 - clock.now)]
    clock.now = 1059.9
    assert (await client.ask(request())).status == 429
    clock.now = 1060
    assert (await client.ask(request())).status == 200
    assert counters(rig).limited_by == {"tokens_per_minute": 2}


@pytest.mark.parametrize(
    ("answer", "told", "held"),
    [
        (
            events('{"choices": []}', '{"usage": {"prompt_tokens": 7, "completion_tokens": 2}}', "[DONE]"),
            9,
            9,
        ),
        # A line is a token where nothing is said, and the prompt is what was estimated: 40 bytes.
        (events('{"choices": []}', '{"choices": []}', "[DONE]"), 2, 12),
        (
            events(
                '{"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1}}}',
                '{"type": "message_delta", "usage": {"output_tokens": 15}}',
            ),
            40,
            40,
        ),
    ],
)
async def test_tokens_of_streams(rig: Rig, replica: Replica, answer: bytes, told: int, held: int) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        half = answer.index(b"_tokens") + 10 if b"_tokens" in answer else len(answer) - 20
        connection.transport.write(answer[:half])
        await until(lambda: any(one.first_byte for one in rig.table.fleets["f"].replicas))
        connection.transport.write(answer[half:])

    replica.script = script
    asked = request(body=b'{"model": "f", "stream": true, "n": 1  }')
    assert len(asked.partition(b"\r\n\r\n")[2]) == 40
    assert (await client.ask(asked)).status == 200
    await until(lambda: counters(rig).in_flight == 0)
    assert counters(rig).tokens == told
    in_force(rig, replace(THOUSAND, tokens_per_minute=held + 1))
    assert (await client.ask(asked)).status == 200
    in_force(rig, replace(THOUSAND, tokens_per_minute=2 * held))
    assert (await client.ask(asked)).status == 429


async def test_a_stream_that_comes_in_one_piece_is_counted_alike(rig: Rig, replica: Replica) -> None:
    in_force(rig, THOUSAND)
    client = await rig.client()
    replica.script = answer_bytes(events('{"choices": []}', '{"choices": []}', "[DONE]"))
    assert (await client.ask(request())).status == 200
    assert counters(rig).tokens == 2
    (standing,) = rig.proxy.key_quotas.of(HASH, THOUSAND).standings()
    assert standing.used == 2 + len(b'{"model": "f", "messages": []}') // 4


async def test_a_replica_is_not_asked_to_compress_what_is_to_be_counted(rig: Rig, replica: Replica) -> None:
    """As servers behind nginx do: what is asked for compressed comes compressed."""
    said = b'{"usage": {"prompt_tokens": 600, "completion_tokens": 500}}'

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        encoded = seen.get(b"accept-encoding") != []
        body = gzip.compress(said) if encoded else said
        about = b"Content-Encoding: gzip\r\n" if encoded else b""
        connection.transport.write(OK + about + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    replica.script = script
    in_force(rig, THOUSAND)
    client = await rig.client()
    asks = (b"Accept: */*", b"accept-encoding: gzip", b"X-Own: 1", b"Accept-Encoding: br;q=0.5, gzip")
    asked = request(b"/v1/chat/completions", b'{"model": "f"}', *asks)
    answer = await client.ask(asked)
    assert (answer.status, answer.body) == (200, said)
    assert (replica.requests[0].get(b"accept"), replica.requests[0].get(b"x-own")) == ([b"*/*"], [b"1"])
    assert counters(rig).tokens == 1100
    assert (await client.ask(asked)).status == 429
    # Whoever has no such limit gets what was asked for.
    answer = await client.ask(asked.replace(KEY, OTHER))
    assert (answer.status, answer.get(b"content-encoding")) == (200, [b"gzip"])
    in_force(rig, replace(ONE_MINUTE, requests_per_minute=9))
    assert (await client.ask(asked)).get(b"content-encoding") == [b"gzip"]


async def test_a_burst_is_held_back_by_what_it_may_take(rig: Rig, replica: Replica) -> None:
    """400 bytes are taken for 100 tokens each, until it is known that they took 5."""
    in_force(rig, THOUSAND)
    gate = Gate(replica, whole('{"usage": {"prompt_tokens": 3, "completion_tokens": 2}}'))
    clients = [await rig.client() for _ in range(12)]
    asked = request(body=b'{"model": "f", "x": "%b"}' % (b"x" * 377))
    assert len(asked.partition(b"\r\n\r\n")[2]) == 400
    for client in clients:
        client.send(asked)
    refused = [await client.answer() for client in clients[10:]]
    assert [answer.status for answer in refused] == [429, 429]
    assert [answer.get(b"retry-after") for answer in refused] == [[b"1"], [b"1"]]
    await until(lambda: gate.waiting == 10)
    gate.open()
    assert [(await client.answer()).status for client in clients[:10]] == [200] * 10
    assert counters(rig).tokens == 50
    assert (await clients[11].ask(asked)).status == 200


# --- concurrency, and every way out ----------------------------------------------------------------


class Gate:
    """Has a replica answer when it is opened."""

    def __init__(self, replica: Replica, answer: bytes = OK_ANSWER) -> None:
        self.answer = answer
        self.held: list[ReplicaConnection] = []
        self._is_open = False
        replica.script = self._script

    @property
    def waiting(self) -> int:
        return len(self.held)

    def open(self) -> None:
        self._is_open = True
        for connection in self.held:
            connection.transport.write(self.answer)
        self.held.clear()

    async def _script(self, connection: ReplicaConnection, seen: Seen) -> None:
        if self._is_open:
            connection.transport.write(self.answer)
        else:
            self.held.append(connection)


ONE_AT_A_TIME = KeyLimits(id="web", max_concurrency=1)
ONE_BESIDE = KeyLimits(id="web", max_concurrency=2)


async def test_one_more_than_may_be_in_flight_is_refused(rig: Rig, replica: Replica) -> None:
    in_force(rig, replace(ONE_AT_A_TIME, max_concurrency=2))
    gate = Gate(replica)
    first, second, third = [await rig.client() for _ in range(3)]
    first.send(request())
    second.send(request())
    await until(lambda: gate.waiting == 2)
    assert counters(rig).in_flight == 2
    answer = await third.ask(request())
    assert answer.status == 429
    assert answer.get(b"retry-after") == [b"1"]
    assert json.loads(answer.body)["error"]["message"] == (
        "this client key allows 2 requests at one time, and 2 are in flight or waiting: "
        "come back when one has ended"
    )
    assert counters(rig).limited_by == {"max_concurrency": 1}
    gate.open()
    assert [(await client.answer()).status for client in (first, second)] == [200, 200]
    assert (await third.ask(request())).status == 200


async def test_a_refused_request_uses_nothing_of_the_other_limits(rig: Rig, replica: Replica) -> None:
    in_force(rig, KeyLimits(id="web", max_concurrency=1, requests_per_minute=3, tokens_per_minute=1000))
    gate = Gate(replica)
    first, second = await rig.client(), await rig.client()
    first.send(request())
    await until(lambda: gate.waiting == 1)
    for _ in range(5):
        assert (await second.ask(request(body=b'{"model": "f"}'))).status == 429
    gate.open()
    assert (await first.answer()).status == 200
    assert [(await second.ask(request())).status for _ in range(5)] == [200, 200, 429, 429, 429]
    use = rig.proxy.key_quotas.of(HASH, ONE_MINUTE)
    assert [standing.used for standing in use.standings()] == [3, 0, 0]


async def test_a_limit_that_comes_while_requests_are_in_flight_counts_them(
    rig: Rig, replica: Replica
) -> None:
    in_force(rig, KeyLimits(id="web"))
    gate = Gate(replica)
    first, second = await rig.client(), await rig.client()
    first.send(request())
    await until(lambda: gate.waiting == 1)
    in_force(rig, ONE_AT_A_TIME)
    assert (await second.ask(request())).status == 429
    rig.keys(SALT, {HASH: ["*"]})
    in_force(rig, ONE_AT_A_TIME)
    gate.open()
    assert (await first.answer()).status == 200
    assert (await second.ask(request())).status == 200


Way = Callable[[Rig, Replica, Client], Awaitable[None]]


async def finishes(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request())).status == 200


async def is_answered_in_pieces(rig: Rig, replica: Replica, client: Client) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
        connection.transport.write(b"0\r\n\r\n")

    replica.script = script
    assert (await client.ask(request())).status == 200


async def gets_an_error_of_the_replica(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    assert (await client.ask(request())).status == 400


async def loses_the_replica(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(b"", "rst")
    assert (await client.ask(request())).status == 502


async def is_cut_within_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(OK + b"Content-Length: 9\r\n\r\npart", "fin")
    assert not (await client.ask(request())).complete


async def leaves_before_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    client.abort()


async def leaves_within_the_answer(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(OK + b"Content-Length: 9\r\n\r\npart")
    client.send(request())
    await client.reader.readuntil(b"part")
    client.abort()


async def leaves_within_its_request(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(request()[:-5])
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.abort()


async def names_no_fleet_that_there_is(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(body=b'{"model": "nobody"}'))).status == 404


async def names_a_fleet_that_the_key_does_not_open(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, name="g", default=False)
    in_force(rig, ONE_BESIDE, fleets=("f",))
    assert (await client.ask(request(b"/fleets/g/x"))).status == 403


async def has_a_body_that_is_not_valid(rig: Rig, replica: Replica, client: Client) -> None:
    client.send(b"POST /fleets/f/x HTTP/1.1\r\nHost: a\r\nx-api-key: %b\r\nTransfer-Encoding: chunked" % KEY)
    client.send(b"\r\n\r\n2\r\nok\r\n")
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.send(b"no chunk\r\n")
    assert (await client.answer()).status == 400


async def is_retried(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, await rig.replica(), protocol="openai")
    for one in rig.replicas[-1], replica:
        one.script = answer_bytes(b"", "rst")
    assert (await client.ask(request())).status == 502
    assert rig.table.fleets["f"].counters.retries == 1


async def finds_no_replica(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(protocol="openai")
    assert (await client.ask(request())).status == 503


async def is_too_late(rig: Rig, replica: Replica, client: Client) -> None:
    Gate(replica)
    assert (await client.ask(request(b"/v1/x", b"{}", b"X-Request-Timeout-Ms: 50"))).status == 504


async def cannot_be_connected(rig: Rig, replica: Replica, client: Client) -> None:
    with unreachable() as nobody:
        rig.fleet(nobody, policy=Policy(timeouts=Timeouts(connect_s=0.1)))
        assert (await client.ask(request(b"/fleets/f/x"))).status == 504


async def waits_in_the_line_in_vain(rig: Rig, replica: Replica, client: Client) -> None:
    policy = Policy(max_concurrency=1, slow_start_s=0, queue=Queue(size=1, timeout_s=0.05))
    rig.fleet(replica, policy=policy)
    gate, busy = Gate(replica), await rig.client()
    busy.send(request(b"/fleets/f/x", key=OTHER))
    await until(lambda: gate.waiting)
    assert (await client.ask(request(b"/fleets/f/x"))).status == 503
    gate.open()
    assert (await busy.answer()).status == 200


async def leaves_the_line(rig: Rig, replica: Replica, client: Client) -> None:
    policy = Policy(max_concurrency=1, slow_start_s=0, queue=Queue(size=1, timeout_s=9))
    rig.fleet(replica, policy=policy)
    gate, busy = Gate(replica), await rig.client()
    busy.send(request(b"/fleets/f/x", key=OTHER))
    await until(lambda: gate.waiting)
    client.send(request(b"/fleets/f/x"))
    await until(lambda: rig.proxy.key_quotas.in_flight() == 2)
    client.abort()
    await until(lambda: rig.proxy.key_quotas.in_flight() == 1)
    gate.open()
    assert (await busy.answer()).status == 200


async def asks_for_what_the_proxy_answers_for_a_fleet(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, protocol="open-inference")
    assert (await client.ask(get(b"/v2/models/f/ready"))).status == 200
    assert (await client.ask(get(b"/v2/health/live"))).status == 200
    assert not replica.requests


async def asks_the_proxy_itself(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(get(b"/v1/models"))).status == 200


async def asks_for_what_nobody_keeps(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, await rig.replica(), protocol="openai")
    assert (await client.ask(get(b"/v1/responses/resp_1"))).status == 200


async def comes_round_again(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(b"/x", b"", b"Via: 1.1 switchyard"))).status == 508


async def has_a_tunnel(rig: Rig, replica: Replica, client: Client, ends: str = "client") -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.tunnel = True
        connection.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
        )

    replica.script = script
    asks = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x")
    answer = await client.ask(get(b"/fleets/f/ws", *asks))
    assert answer.status == 101
    assert await client.reader.readexactly(5) == b"hello"
    other = await rig.client()
    assert (await other.ask(get(b"/fleets/f/x"))).status == 429
    if ends == "client":
        client.abort()
    else:
        replica.connections[-1].transport.close()


has_a_tunnel_that_the_replica_ends = partial(has_a_tunnel, ends="replica")


async def is_served_by_a_proxy_that_drains(rig: Rig, replica: Replica, client: Client) -> None:
    gate = Gate(replica)
    client.send(request())
    await until(lambda: gate.waiting)
    rig.proxy.drain()
    gate.open()
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, [b"close"])


async def uploads_much(rig: Rig, replica: Replica, client: Client) -> None:
    assert (await client.ask(request(b"/fleets/f/x", b"x" * 2_000_000))).status == 200


async def keeps_what_it_made(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(whole('{"id": "resp_1", "usage": {"input_tokens": 1, "output_tokens": 1}}'))
    assert (await client.ask(request(b"/v1/responses"))).status == 200


WAYS: list[Way] = [
    finishes,
    is_answered_in_pieces,
    gets_an_error_of_the_replica,
    loses_the_replica,
    is_cut_within_the_answer,
    leaves_before_the_answer,
    leaves_within_the_answer,
    leaves_within_its_request,
    names_no_fleet_that_there_is,
    names_a_fleet_that_the_key_does_not_open,
    has_a_body_that_is_not_valid,
    is_retried,
    finds_no_replica,
    is_too_late,
    cannot_be_connected,
    waits_in_the_line_in_vain,
    leaves_the_line,
    asks_for_what_the_proxy_answers_for_a_fleet,
    asks_the_proxy_itself,
    asks_for_what_nobody_keeps,
    comes_round_again,
    has_a_tunnel,
    has_a_tunnel_that_the_replica_ends,
    is_served_by_a_proxy_that_drains,
    uploads_much,
    keeps_what_it_made,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: getattr(way, "__name__", "has_a_tunnel_reverse"))
async def test_every_way_out_gives_the_place_back_once(rig: Rig, replica: Replica, way: Way) -> None:
    """Another request of the key is in flight all the while: what is given back twice would be its place."""
    elsewhere = await rig.replica()
    rig.fleet(elsewhere, name="elsewhere", default=False)
    in_force(rig, ONE_BESIDE)
    gate, other = Gate(elsewhere), await rig.client()
    other.send(request(b"/fleets/elsewhere/x"))
    await until(lambda: gate.waiting)
    use = rig.proxy.key_quotas.of(HASH, ONE_BESIDE)
    await way(rig, replica, await rig.client())
    await until(lambda: rig.proxy.key_quotas.in_flight() == 1)
    assert [standing.used for standing in use.standings()] == [1]
    gate.open()
    assert (await other.answer()).status == 200
    assert rig.proxy.key_quotas.in_flight() == 0
    assert [standing.used for standing in use.standings()] == [0]


async def test_a_body_that_does_not_tell_its_size_reserves_the_most(rig: Rig, replica: Replica) -> None:
    in_force(rig, THOUSAND)
    answers = asyncio.Event()

    async def wait(connection: ReplicaConnection, seen: Seen) -> None:
        await answers.wait()
        connection.transport.write(OK_ANSWER)

    replica.script = wait
    first, second = await rig.client(), await rig.client()
    body = b'{"model": "f"}'
    chunked = request(body=body).replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
    head, _, _ = chunked.partition(b"\r\n\r\n")
    first.send(head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    await until(lambda: replica.requests)
    assert (await second.ask(request())).status == 429
    answers.set()
    assert (await first.answer()).status == 200
