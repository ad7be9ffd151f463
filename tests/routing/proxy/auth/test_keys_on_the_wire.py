"""Every byte that replicas get, on every way there: a client key is never among them."""

from collections.abc import Awaitable, Callable

import pytest

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.contract.policy import Policy, Queue, Retries
from routing.contract.table import KeyLimits
from routing.proxy import ProxySettings
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
    until,
)

KEY = new_key().encode()
SALT = new_salt()
HASH = key_hash(salt_bytes(SALT), KEY)
CHAT = b'{"model": "f", "messages": []}'
PLACES = {
    "authorization": [b"Authorization: Bearer " + KEY],
    "x-api-key": [b"x-api-key: " + KEY],
    "both": [b"X-Api-Key: " + KEY, b"AUTHORIZATION: bearer " + KEY],
    "many": [
        b"x-api-key: its-own, " + KEY,
        b"Authorization: " + KEY,
        b"authorization: Bearer x,Bearer " + KEY,
    ],
}


class Sender:
    """Sends requests that carry the key at one place."""

    def __init__(self, rig: Rig, client: Client, fields: list[bytes]) -> None:
        self.rig = rig
        self.client = client
        self.fields = fields

    def head(self, line: bytes, *fields: bytes) -> bytes:
        return b"\r\n".join((line + b" HTTP/1.1", b"Host: a.test", *self.fields, *fields)) + b"\r\n\r\n"

    def post(self, path: bytes, body: bytes, *fields: bytes) -> bytes:
        return self.head(b"POST " + path, *fields, b"Content-Length: %d" % len(body)) + body

    async def gets(self, request: bytes, status: int = 200) -> None:
        answer = await self.client.ask(request)
        assert answer.status == status, answer.body


Way = Callable[[Sender, Replica], Awaitable[None]]


async def plain(sender: Sender, replica: Replica) -> None:
    await sender.gets(sender.head(b"GET /fleets/f/x"))
    await sender.gets(sender.post(b"/v1/chat/completions", CHAT))
    await sender.gets(sender.post(b"/v1/messages", CHAT, b"anthropic-version: 2023-06-01"))


async def repeated_heads(sender: Sender, replica: Replica) -> None:
    """The same one, then such that differ in what templates let differ."""
    for _ in range(3):
        await sender.gets(sender.post(b"/v1/chat/completions", CHAT))
    for number in range(6):
        about = b"X-Request-Id: r%d" % number
        await sender.gets(sender.post(b"/v1/chat/completions", CHAT[:-1] + b" " * number + b"}", about))


async def byte_by_byte(sender: Sender, replica: Replica) -> None:
    await sender.client.send_bytewise(sender.post(b"/v1/chat/completions", CHAT))
    assert (await sender.client.answer()).status == 200


async def pipelined(sender: Sender, replica: Replica) -> None:
    sender.client.send(sender.post(b"/v1/chat/completions", CHAT) * 3)
    for _ in range(3):
        assert (await sender.client.answer()).status == 200


async def in_an_old_version(sender: Sender, replica: Replica) -> None:
    await sender.gets(b"\r\n".join((b"GET /fleets/f/x HTTP/1.0", *sender.fields)) + b"\r\n\r\n")


async def by_other_proxies(sender: Sender, replica: Replica) -> None:
    fields = (b"Via: 1.1 other", b"X-Forwarded-For: 10.0.0.9", b"Connection: x-api-key, authorization")
    await sender.gets(sender.post(b"/v1/chat/completions", CHAT, *fields))


async def streamed(sender: Sender, replica: Replica) -> None:
    replica.script = answer_bytes(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
    await sender.gets(sender.post(b"/v1/chat/completions", b'{"model": "f", "stream": true}'))


async def large_uploads(sender: Sender, replica: Replica) -> None:
    await sender.gets(sender.post(b"/fleets/f/x", b"x" * 3_000_000))
    chunked = sender.head(b"POST /fleets/f/x", b"Transfer-Encoding: chunked", b"Expect: 100-continue")
    sender.client.send(chunked)
    assert (await sender.client.answer()).status == 100
    sender.client.send(
        (b"20000\r\n" + b"y" * 0x20000 + b"\r\n") * 9 + b"0\r\nX-Api-Key: " + KEY + b"\r\n\r\n"
    )
    assert (await sender.client.answer()).status == 200


async def under_another_name(sender: Sender, replica: Replica) -> None:
    sender.rig.fleet(replica, protocol="openai", served_model="real", aliases=("nick",))
    await sender.gets(sender.post(b"/v1/chat/completions", b'{"model": "nick"}'))
    assert b'"real"' in replica.requests[-1].body


async def forms(sender: Sender, replica: Replica) -> None:
    sender.rig.fleet(replica, protocol="openai", served_model="real", aliases=("nick",))
    form = (
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nnick\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--b--\r\n'
    )
    kind = b"Content-Type: multipart/form-data; boundary=b"
    for size in (10, 200_000):
        await sender.gets(sender.post(b"/v1/audio/transcriptions", form % (b"x" * size), kind))
        assert b"real" in replica.requests[-1].body


async def responses(sender: Sender, replica: Replica) -> None:
    made = b'{"id": "resp_1"}'
    replica.script = answer_bytes(OK + b"Content-Length: %d\r\n\r\n%b" % (len(made), made))
    await sender.gets(sender.post(b"/v1/responses", CHAT))
    await sender.gets(sender.post(b"/v1/responses", b'{"model": "f", "previous_response_id": "resp_1"}'))
    await sender.gets(sender.head(b"GET /v1/responses/resp_1"))


async def v2(sender: Sender, replica: Replica) -> None:
    sender.rig.fleet(replica, protocol="open-inference", served_model="real")
    await sender.gets(sender.post(b"/v2/models/f/infer", b'{"inputs": []}'))
    await sender.gets(sender.head(b"GET /v2/models/f"))


async def tunnels(sender: Sender, replica: Replica) -> None:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.tunnel = True
        connection.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )

    replica.script = script
    asks = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x")
    await sender.gets(sender.head(b"GET /fleets/f/ws", *asks), 101)
    sender.client.send(b"frames")
    await until(lambda: replica.connections[-1].received.endswith(b"frames"))
    sender.client.abort()


def two(sender: Sender, one: Replica, other: Replica) -> None:
    retries = Retries(budget_percent=100, statuses=[503])
    policy = Policy(strategy="round_robin", slow_start_s=0, retries=retries)
    sender.rig.fleet(one, other, protocol="openai", policy=policy)


async def retried(sender: Sender, replica: Replica) -> None:
    other = await sender.rig.replica()
    two(sender, replica, other)
    replica.script = answer_bytes(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
    for _ in range(4):
        await sender.gets(sender.post(b"/v1/chat/completions", CHAT))
    assert sender.rig.table.fleets["f"].counters.retries == len(replica.requests) >= 2
    assert len(other.requests) == 4


async def lost_and_sent_again(sender: Sender, replica: Replica) -> None:
    other = await sender.rig.replica()
    two(sender, replica, other)
    replica.script = answer_bytes(b"", "rst")
    for _ in range(4):
        await sender.gets(sender.post(b"/v1/chat/completions", CHAT))
    assert sender.rig.table.fleets["f"].counters.retries == len(replica.requests) >= 2
    assert len(other.requests) == 4


async def on_a_connection_that_had_gone_stale(sender: Sender, replica: Replica) -> None:
    await sender.gets(sender.post(b"/v1/chat/completions", CHAT))

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if connection is replica.connections[0]:
            connection.transport.abort()
        else:
            connection.transport.write(OK_ANSWER)

    replica.script = script
    await sender.gets(sender.post(b"/v1/chat/completions", CHAT))
    assert len(replica.connections) == 2


async def after_a_wait(sender: Sender, replica: Replica) -> None:
    sender.rig.fleet(replica, policy=Policy(max_concurrency=1, slow_start_s=0, queue=Queue(timeout_s=9)))
    held: list[ReplicaConnection] = []

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        held.append(connection)

    replica.script = script
    sender.client.send(sender.post(b"/fleets/f/x", b"{}"))
    await until(lambda: held)
    second = await sender.rig.client()
    second.send(sender.post(b"/fleets/f/x", b"{}"))
    await until(lambda: sender.rig.table.fleets["f"].counters.in_flight == 2)
    held[0].transport.write(OK_ANSWER)
    await until(lambda: len(held) == 2)
    held[1].transport.write(OK_ANSWER)
    assert [(await client.answer()).status for client in (sender.client, second)] == [200, 200]


async def to_a_replica_with_a_credential(sender: Sender, replica: Replica) -> None:
    sender.rig.fleet(replica, credentials={"r0": "env:SY_TEST_CREDENTIAL"})
    await sender.gets(sender.post(b"/fleets/f/x", b"{}"))
    assert replica.requests[-1].get(b"authorization") == [b"Bearer the-replicas-own"]


WAYS: list[Way] = [
    plain,
    repeated_heads,
    byte_by_byte,
    pipelined,
    in_an_old_version,
    by_other_proxies,
    streamed,
    large_uploads,
    under_another_name,
    forms,
    responses,
    v2,
    tunnels,
    retried,
    lost_and_sent_again,
    on_a_connection_that_had_gone_stale,
    after_a_wait,
    to_a_replica_with_a_credential,
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_replica_gets_a_byte_of_a_key(
    start_rig: StartRig, way: Way, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SY_TEST_CREDENTIAL", "the-replicas-own")
    rig = await start_rig(ProxySettings())
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    limits = KeyLimits(id="web", requests_per_minute=1000, max_concurrency=9, tokens_per_minute=10**9)
    rig.keys(SALT, {HASH: [ALL_FLEETS]}, {HASH: limits})
    await way(Sender(rig, await rig.client(), PLACES[place]), replica)
    received = [bytes(connection.received) for one in rig.replicas for connection in one.connections]
    assert any(received)
    for each in received:
        # Nor any of it: its prefix is nowhere else here.
        assert b"sy-" not in each.lower()
