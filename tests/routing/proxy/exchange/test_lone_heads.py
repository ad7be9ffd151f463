"""A response head that comes alone, over sockets: forwarded in time, retried where the replica is lost."""

import asyncio

from tests.routing.http.test_held_heads import CHUNK, DONE, EVENT, HEAD
from tests.routing.proxy.rig import OK_ANSWER, ReplicaConnection, Rig, Seen, until

ASK = b'{"model": "f"}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(ASK), ASK)


async def test_a_head_alone_is_forwarded_in_time(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    client = await rig.client()
    going_on = asyncio.Event()

    async def head_alone(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(HEAD)
        await going_on.wait()
        connection.transport.write(CHUNK + DONE)

    replica.script = head_alone
    client.send(REQUEST)
    async with asyncio.timeout(5):
        head = await client.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    going_on.set()
    async with asyncio.timeout(5):
        assert EVENT in await client.reader.readuntil(b"0\r\n\r\n")


async def test_a_replica_that_is_lost_after_its_head_is_none_to_the_client(rig: Rig) -> None:
    """Another one answers, as after a connection that broke before its head."""
    broken, other = await rig.replica(), await rig.replica()
    rig.fleet(broken, other, protocol="openai")
    client = await rig.client()

    async def lose(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(HEAD)
        connection.transport.close()

    async def answer(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK_ANSWER)

    broken.script, other.script = lose, answer
    for _ in range(2):
        client.send(REQUEST)
        assert (await client.answer()).status == 200
    await until(lambda: broken.requests)
