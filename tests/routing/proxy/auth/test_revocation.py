"""A key that is revoked, or no longer opens the fleet, ends what is in flight with it."""

import asyncio
import time

import pytest
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from routing.contract.client_keys import ALL_FLEETS
from routing.contract.policy import Policy, Timeouts
from routing.contract.table import KeyLimits
from tests.routing.proxy.auth.key_limits.limited_keys import KEY as LIMITED
from tests.routing.proxy.auth.key_limits.limited_keys import counters, in_force
from tests.routing.proxy.auth.test_client_keys import KEY, OTHER, bearer, get, let_in, said
from tests.routing.proxy.exchange.test_tunnel import ASKED, _at, switch
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, until

WITHIN_S = 2.0
STREAM = OK + b"Transfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n7\r\ndata: 1\r\n"


async def stream(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(STREAM)


async def wait(connection: ReplicaConnection, seen: Seen) -> None:
    """Answers nothing."""


def keyed(asked: bytes, key: bytes = KEY) -> bytes:
    return asked.replace(b"Host: a.test", b"Host: a.test\r\n" + bearer(key))


async def test_streams_of_a_revoked_key_are_cut_and_no_others(rig: Rig, replica: Replica) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    replica.script = stream
    revoked, kept = await rig.client(), await rig.client()
    for client, key in ((revoked, KEY), (kept, OTHER)):
        client.send(get(bearer(key)))
        await client.reader.readuntil(b"data: 1\r\n")
    began = time.monotonic()
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    assert await revoked.ends() == b""
    await until(lambda: len(replica.open) == 1)
    assert time.monotonic() - began < WITHIN_S
    replica.open[0].transport.write(b"7\r\ndata: 2\r\n0\r\n\r\n")
    assert (await kept.reader.readuntil(b"0\r\n\r\n")).startswith(b"7\r\ndata: 2")
    pool = rig.table.fleets["f"]
    await until(lambda: pool.counters.in_flight == 0)
    assert (pool.counters.cancelled, pool.replicas[0].failed) == (1, 0)


async def test_a_request_without_a_response_yet_gets_401(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    answering, replica.script = replica.script, wait
    client.send(get(bearer()))
    await until(lambda: replica.requests)
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    answer = await client.answer()
    assert (answer.status, said(answer)) == (401, "the client key has been revoked")
    await until(lambda: not replica.open)
    replica.script = answering
    assert (await client.ask(get(bearer(OTHER)))).status == 200


async def test_what_finishes_within_the_second_is_answered(
    rig: Rig, replica: Replica, client: Client
) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    replica.script = wait
    client.send(get(bearer()))
    await until(lambda: replica.requests)
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    connection = replica.open[0]
    connection.transport.write(OK + b"Content-Length: 2\r\n\r\n")
    await asyncio.sleep(0)
    connection.transport.write(b"ok")
    assert (await client.answer()).body == b"ok"
    assert (await client.ask(get(bearer()))).status == 401


async def test_one_that_waits_for_a_slot_gets_401_too(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(replica, policy=Policy(strategy="round_robin", slow_start_s=0, max_concurrency=1))
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    replica.script = wait
    first = await rig.client()
    first.send(get(bearer(OTHER)))
    await until(lambda: replica.requests)
    client.send(get(bearer()))
    pool = rig.table.fleets["f"]
    await until(lambda: pool.counters.queued == 1)
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    assert (await client.answer()).status == 401
    assert len(replica.requests) == 1


async def test_a_key_that_loses_the_fleet(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(await rig.replica(), name="other", default=False)
    let_in(rig, {KEY: ["f", "other"]}, required=True)
    replica.script = wait
    client.send(get(bearer(), path=b"/fleets/f/x"))
    await until(lambda: replica.requests)
    let_in(rig, {KEY: ["f"]}, required=True)
    await asyncio.sleep(0)
    assert replica.open
    let_in(rig, {KEY: ["other"]}, required=True)
    answer = await client.answer()
    assert (answer.status, said(answer)) == (403, "this client key may not use fleet 'f': it may use other")


async def test_a_deleted_fleets_requests_finish(rig: Rig, replica: Replica, client: Client) -> None:
    rig.fleet(await rig.replica(), name="other", default=False)
    let_in(rig, {KEY: ["f", "other"]}, required=True)
    replica.script = wait
    client.send(get(bearer(), path=b"/fleets/f/x"))
    await until(lambda: replica.requests)
    manifest = rig.table.manifest
    digest = next(iter(manifest.key_hashes))
    rig.table.apply_manifest(
        replace(
            manifest,
            version=manifest.version + 1000,
            fleets={"other": manifest.fleets["other"]},
            default=None,
            key_hashes={digest: ["other"]},
        )
    )
    replica.open[0].transport.write(OK + b"Content-Length: 2\r\n\r\nok")
    assert (await client.answer()).body == b"ok"


async def ticking(socket: ServerConnection) -> None:
    while True:
        await socket.send("tick")
        await asyncio.sleep(0.01)


async def _read_on(socket: ClientConnection) -> None:
    while True:
        await socket.recv()


async def test_a_web_socket_of_a_revoked_key_is_closed_with_a_reason(rig: Rig) -> None:
    async with serve(ticking, "127.0.0.1", 0) as server:
        rig.fleet(_at(server))
        let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
        url = f"{'ws' if rig.tls is None else 'wss'}://127.0.0.1:{rig.port}/fleets/f/chat"
        fields = {"Authorization": f"Bearer {KEY.decode()}"}
        async with connect(url, ssl=rig.tls and rig.tls.client, additional_headers=fields) as socket:
            assert await socket.recv() == "tick"
            began = time.monotonic()
            let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
            with pytest.raises(ConnectionClosed) as closed:
                await _read_on(socket)
            assert time.monotonic() - began < WITHIN_S
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the client key has been revoked")
    await until(lambda: rig.table.fleets["f"].replicas[0].in_flight == 0)


async def test_a_client_that_reads_nothing_is_cut(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]}, required=True)
    replica.script = switch
    assert (await client.ask(keyed(ASKED))).status == 101
    # In the midst of a frame nothing can be said.
    replica.connections[0].transport.write(b"\x82\x7e\xff\xffhalf")
    assert await client.reader.readexactly(8) == b"\x82\x7e\xff\xffhalf"
    let_in(rig, {OTHER: [ALL_FLEETS]}, required=True)
    assert await client.ends() == b""
    await until(lambda: not replica.open)


async def test_the_age_of_a_web_socket_is_limited(rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = switch
    limits = Timeouts(websocket_s=0.4, idle_s=30, total_s=30)
    rig.fleet(replica, policy=Policy(strategy="round_robin", slow_start_s=0, timeouts=limits))
    began = time.monotonic()
    assert (await client.ask(ASKED)).status == 101
    assert await client.ends() == b"\x88\x1d\x03\xe9open for the limit of 0.4 s"
    assert 0.4 <= time.monotonic() - began < WITHIN_S
    await until(lambda: not replica.open)
    pool = rig.table.fleets["f"]
    assert (pool.counters.errors, pool.replicas[0].failed) == (0, 0)


async def test_tokens_that_a_web_socket_reports_count_for_its_key(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.fleet(replica, protocol="openai")
    in_force(rig, KeyLimits(id="web", tokens_per_minute=1000))
    replica.script = switch
    asked = keyed(ASKED, LIMITED).replace(
        b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    assert (await client.ask(asked)).status == 101
    assert replica.requests[0].get(b"sec-websocket-extensions") == []
    text = b'{"response":{"usage":{"input_tokens":7,"output_tokens":5}}}'
    for _ in range(3):
        replica.connections[0].transport.write(bytes([0x81, len(text)]) + text)
    # While it is open, not only at its end.
    await until(lambda: counters(rig).tokens == 36)
    assert counters(rig).in_flight == 1
    replica.connections[0].transport.write(bytes([0x81, len(text)]) + text)
    replica.connections[0].transport.close()
    await until(lambda: counters(rig).in_flight == 0)
    assert counters(rig).tokens == 48
    fleet = rig.table.fleets["f"].counters
    assert (fleet.web_socket_messages, fleet.web_socket_bytes) == (4, 4 * (2 + len(text)))
