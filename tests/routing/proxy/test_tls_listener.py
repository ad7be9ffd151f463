"""HTTPS: what the plain listener owes its clients holds over TLS too, and what TLS itself asks for."""

import asyncio
import contextlib
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from routing.contract.policy import Policy, Timeouts
from routing.http.limits import ConnectionLimits
from routing.proxy import ProxySettings
from routing.proxy.limits.connection_limit import HALF_HEAD, REFUSAL
from routing.tls.certificate import server_context
from tests.certificates import make_certificate
from tests.routing.proxy.exchange.test_client_disconnect import (  # noqa: F401
    test_client_leaves,
    test_client_leaves_while_connecting,
    test_client_leaves_while_its_body_is_searched,
)
from tests.routing.proxy.exchange.test_streaming_response import (  # noqa: F401
    test_answer_to_http_1_0_is_closed,
    test_client_that_stops_reading_is_cut_off,
    test_each_event_arrives_before_the_next_is_written,
    test_early_answer_while_uploading,
    test_expect_continue,
    test_request_body_streams_to_a_named_fleet,
    test_slow_client_pauses_the_replica,
    test_upload_of_many_mebibytes,
)
from tests.routing.proxy.exchange.test_tunnel import (  # noqa: F401
    test_a_real_server_and_a_real_client,
    test_bytes_that_come_with_the_heads_are_not_lost,
    test_each_side_is_told_at_once_when_the_other_breaks,
    test_the_client_closes,
    test_the_replica_closes,
    tunnel,
)

# The tests of the plain listener, run once more with this module's ``tls``.
from tests.routing.proxy.limits.test_connection_limit import (  # noqa: F401
    at_once,
    test_descriptors_running_short_count_as_no_place,
    test_none_in_use_makes_room,
    test_one_that_has_said_nothing_yet_makes_room,
    test_the_one_that_is_idle_longest_makes_room,
    test_those_on_their_way_out_are_bounded,
)
from tests.routing.proxy.raw_client import RawTlsClient, raw_client
from tests.routing.proxy.rig import (
    OK,
    Client,
    Gate,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
    StartRig,
    Tls,
    until,
)
from tests.routing.proxy.test_half_close import (
    Held,
    held,  # noqa: F401
    policy,
    test_a_reset_is_noticed_while_the_answer_is_waited_for,  # noqa: F401
    test_a_whole_request_and_its_answer,  # noqa: F401
    test_an_answer_that_goes_on,  # noqa: F401
    test_without_a_whole_request_the_client_is_gone,  # noqa: F401
)
from tests.routing.proxy.test_keep_alive import (  # noqa: F401
    test_a_repeated_head_with_another_body,
    test_body_over_the_limit,
    test_draining,
    test_idle_client_connection_is_closed,
    test_one_connection_serves_many_requests,
    test_silent_client_is_closed_without_a_word,
    test_slow_body_is_answered_408,
    test_slow_head_is_answered_408,
)
from tests.routing.proxy.test_lingering_close import (  # noqa: F401
    lingering_rig,
    test_an_answer_that_is_still_being_taken_is_not_cut,
    test_connection_without_any_request,
    test_idle_connections_do_not_hold_a_drain_up,
    test_request_that_comes_after_the_fin,
    test_request_that_is_not_read_yet,
    test_request_while_a_draining_proxy_ends_the_one_before,
    test_what_is_sent_after_the_fin_is_bounded,
)

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
MIB = 1 << 20


def tls_of(folder: Path, name: str = "server") -> Tls:
    pair = make_certificate(folder, name)
    return Tls(server_context(pair.certificate.read_bytes(), pair.key.read_bytes()), pair.trusting())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return tls_of(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def tls(made: Tls) -> Tls:
    """Takes the place of the plain listener's."""
    return made


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that a stranger sends may fill the log."""
    yield
    assert not caplog.get_records("call")


async def hang(connection: ReplicaConnection, seen: Seen) -> None:
    """No answer, ever."""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_what_is_negotiated_and_what_replicas_hear_of_it(
    version: ssl.TLSVersion, rig: Rig, replica: Replica, tls: Tls
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    rig.tls = tls._replace(client=context)
    client = await rig.client()
    about = client.writer.get_extra_info("ssl_object")
    assert (about.version(), about.selected_alpn_protocol()) == (version.name.replace("_", "."), "http/1.1")
    await client.ask(GET)
    await client.ask(GET.replace(b"\r\n\r\n", b"\r\nVia: 1.1 other\r\nX-Forwarded-Proto: http\r\n\r\n"))
    assert [seen.get(b"x-forwarded-proto") for seen in replica.requests] == [[b"https"], [b"https"]]
    assert [seen.get(b"x-forwarded-for") for seen in replica.requests] == [[b"127.0.0.1"]] * 2


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_older_versions_are_refused_with_an_alert(rig: Rig, tls: Tls, quiet: None) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    rig.tls = tls._replace(client=context)
    with pytest.raises(ssl.SSLError, match="alert protocol version"):
        async with raw_client(rig):
            pass


@pytest.mark.parametrize("method", [b"GET", b"DELETE"])
async def test_plain_http_is_told_what_to_write(method: bytes, start_rig: StartRig, quiet: None) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=20.0)))
    client = await Client.open(rig.port)
    answer = await client.ask(GET.replace(b"GET", method))
    assert answer.status == 400
    assert b"this port speaks HTTPS: write https://" in answer.body
    assert await client.ends() == b""
    assert rig.proxy.rejected == 1
    assert not rig.proxy.handshakes


@pytest.mark.parametrize("said", [b"\x00" * 100, b"\x16\x03\x01\x00\x05hello", b"hello there, is this TLS?"])
async def test_what_is_no_handshake_ends(said: bytes, start_rig: StartRig, quiet: None) -> None:
    rig = await start_rig(ProxySettings(limits=ConnectionLimits(linger_s=0.1)))
    client = await Client.open(rig.port)
    client.send(said)
    alert = await client.ends()
    assert alert[:1] in (b"", b"\x15")
    await until(lambda: not rig.proxy.sweeper.members)
    assert not rig.proxy.handshakes


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_a_handshake_has_the_time_of_a_head(said: bytes, rig: Rig, quiet: None) -> None:
    rig.fleet(await rig.replica(), policy=Policy(timeouts=Timeouts(head_s=0.3)))
    client = await Client.open(rig.port)
    opened = time.monotonic()
    client.send(said)
    assert await client.ends() == b""
    assert 0.2 < time.monotonic() - opened < 5.0
    assert not rig.proxy.sweeper.members


async def test_a_drain_waits_for_a_handshake(rig: Rig, tls: Tls) -> None:
    """Its client is about to ask; one that has said nothing is not waited for."""
    silent = await Client.open(rig.port)
    begun = await Client.open(rig.port)
    await until(lambda: len(rig.proxy.sweeper.members) == 2)
    assert rig.proxy.idle()
    begun.send(b"\x16\x03\x01")
    await until(lambda: not rig.proxy.idle())
    begun.abort()
    await until(rig.proxy.idle)
    silent.abort()
    await until(lambda: not rig.proxy.sweeper.members)


async def test_handshake_and_request_byte_by_byte(rig: Rig, replica: Replica, tls: Tls) -> None:
    async def trickle(client: RawTlsClient) -> None:
        for byte in client.unsent():
            client.socket.send(bytes([byte]))
            await asyncio.sleep(0)

    with socket.create_connection(("127.0.0.1", rig.port)) as connection:
        connection.setblocking(False)
        client = RawTlsClient(connection, tls.client)
        while not client.shakes_hands():
            await trickle(client)
            await client.hear()
        client.tls.write(GET)
        await trickle(client)
        assert (await client.received()).endswith(b"\r\n\r\nok")


async def test_a_request_behind_the_handshake_of_a_client_without_a_place(
    rig: Rig, replica: Replica, tls: Tls, quiet: None
) -> None:
    """Both come in one piece, as they do when the proxy has much to do."""
    rig.proxy.connection_limit.set(1, sys.maxsize)
    Gate(replica)
    busy = await rig.client()
    busy.send(GET)
    await until(lambda: replica.requests)
    with socket.create_connection(("127.0.0.1", rig.port)) as connection:
        connection.setblocking(False)
        client = RawTlsClient(connection, tls.client)
        while not client.shakes_hands():
            connection.send(client.unsent())
            await client.hear()
        client.tls.write(GET)
        connection.send(client.unsent())
        assert await client.received() == REFUSAL
        assert await client.received() == b""


async def test_a_close_notify_is_the_clients_leaving(rig: Rig, replica: Replica) -> None:
    """Also without a FIN, and of a client that waits for the proxy's."""
    replica.script = hang
    async with raw_client(rig) as client:
        client.send(GET)
        await until(lambda: replica.requests)
        left = time.monotonic()
        assert isinstance(client, RawTlsClient)
        client.say_goodbye()
        await until(lambda: replica.connections[0].closed)
        assert replica.connections[0].closed_at - left < 0.1
    await until(lambda: rig.proxy.clients == 0)


@pytest.mark.parametrize("fin", [False, True])
async def test_after_a_close_notify_the_answer_still_comes_where_the_fleet_allows_it(
    fin: bool, rig: Rig, replica: Replica
) -> None:
    rig.fleet(replica, policy=policy("allow"))
    waiting = Held(replica)
    async with raw_client(rig) as client:
        assert isinstance(client, RawTlsClient)
        client.send(GET)
        await until(lambda: replica.requests)
        (connection,) = rig.proxy._clients
        client.say_goodbye()
        client.socket.send(b"nothing that counts")
        if fin:
            client.socket.shutdown(socket.SHUT_WR)
        await until(lambda: connection._is_half_closed)  # type: ignore[attr-defined]
        waiting.gate.set()
        assert (await client.received()).endswith(b"\r\n\r\nok")
        with pytest.raises(ssl.SSLZeroReturnError):
            await client.received()
    await until(lambda: rig.proxy.clients == 0)
    assert rig.table.fleets["f"].counters.cancelled == 0


async def test_small_chunks_are_all_read_though_a_close_notify_comes_with_them(
    rig: Rig, replica: Replica
) -> None:
    """Else they are decoded a little at a time."""
    rig.fleet(replica, policy=policy("allow"))
    async with raw_client(rig) as client:
        assert isinstance(client, RawTlsClient)
        upload = b"POST /p HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        records = client.encrypted(upload + b"8\r\n12345678\r\n" * 5000 + b"0\r\n\r\n")
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.unwrap()
        client.socket.send(records + client.unsent())
        assert (await client.received()).endswith(b"\r\n\r\nok")
    assert [len(seen.body) for seen in replica.requests] == [40_000]


async def test_an_upload_is_paused_and_its_clients_going_is_seen(rig: Rig, replica: Replica) -> None:
    replica.on_data = lambda connection, data: connection.transport.pause_reading()
    async with raw_client(rig) as client:
        client.send(b"POST /p HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (60 * MIB))
        assert isinstance(client, RawTlsClient)
        records = memoryview(client.encrypted(bytes(60 * MIB)))
        sent, since = 0, time.monotonic()
        while time.monotonic() - since < 0.2:
            try:
                sent += client.socket.send(records[sent:])
                since = time.monotonic()
            except BlockingIOError:
                await asyncio.sleep(0.002)
        assert sent < 30 * MIB
        upstream = next(iter(rig.table.fleets["f"].replicas[0].endpoint.pool.open))  # type: ignore[union-attr]
        assert upstream.transport.get_write_buffer_size() <= MIB
        left = time.monotonic()
    await until(lambda: rig.proxy.clients == 0)
    assert time.monotonic() - left < 0.1
    await until(lambda: rig.proxy.upstreams == 0)


async def test_a_broken_record_cuts_the_connection(rig: Rig, replica: Replica, quiet: None) -> None:
    replica.script = hang
    async with raw_client(rig) as client:
        client.send(GET)
        await until(lambda: replica.requests)
        client.socket.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        with pytest.raises(ssl.SSLError, match="bad record mac"):
            await client.received()
        # It is not left to the client to end it.
        await until(lambda: rig.proxy.clients == 0)
    await until(lambda: rig.table.fleets["f"].counters.cancelled == 1)


async def test_the_last_answer_is_followed_by_a_close_notify(rig: Rig, replica: Replica) -> None:
    async with raw_client(rig) as client:
        client.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await client.received()).endswith(b"\r\n\r\nok")
        assert await client.received() == b""


async def test_a_half_closed_end_is_seen_behind_an_answer_that_is_not_taken(
    rig: Rig, replica: Replica
) -> None:
    async def endless(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"\r\n" + bytes(64 * MIB))

    replica.script = endless
    took = []
    for number in range(3):  # a busy machine is late once, and not each time
        async with raw_client(rig, receive_buffer=4096) as client:
            client.send(GET)
            await until(lambda: any(one.write_paused for one in rig.proxy._clients))
            left = time.monotonic()
            client.socket.shutdown(socket.SHUT_WR)
            await until(lambda number=number: replica.connections[number].closed)
            took.append(replica.connections[number].closed_at - left)
        await until(lambda: rig.proxy.clients == 0)
    assert min(took) < 0.1


async def test_an_answer_that_is_cut_ends_without_a_close_notify(rig: Rig, replica: Replica) -> None:
    async def half(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        connection.transport.close()

    replica.script = half
    async with raw_client(rig) as client:
        client.send(GET)
        assert (await client.received()).endswith(b"hello\r\n")
        with pytest.raises((AssertionError, ConnectionError), match=r"without a close_notify|reset"):
            await client.received()


async def test_a_new_certificate_is_for_new_connections(
    rig: Rig, replica: Replica, tls: Tls, tmp_path: Path
) -> None:
    old = await rig.client()
    assert (await old.ask(GET)).status == 200
    new = tls_of(tmp_path, "new")
    rig.proxy.speak_tls(new.server)
    assert (await old.ask(GET)).status == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await rig.client()
    rig.tls = new
    assert (await (await rig.client()).ask(GET)).status == 200
    assert (await old.ask(GET)).status == 200


async def test_half_handshakes_of_the_address_with_most_give_way(rig: Rig, replica: Replica) -> None:
    """Before anybody is refused, and though others began theirs before."""
    limit = rig.proxy.connection_limit
    limit.set(4, sys.maxsize)
    limit._plenty = 4  # none gives way before all places are taken
    begun = []
    for source in ("127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.3"):
        streams = await asyncio.open_connection("127.0.0.1", rig.port, local_addr=(source, 0))
        streams[1].write(b"\x16\x03\x01\x02\x00\x01")
        begun.append(streams)
        await until(lambda: len(limit.heads) == len(begun))
    assert (await (await rig.client()).ask(GET)).status == 200
    assert (limit.acts[HALF_HEAD], limit.refused) == (1, 0)
    async with asyncio.timeout(3):  # long before the time of a head
        assert await begun[1][0].read() == b""
    for _, writer in begun:
        writer.transport.abort()


async def test_connections_that_never_shake_hands_take_no_place_for_long(
    rig: Rig, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    rig.proxy.connection_limit.set(3, sys.maxsize)
    silent = [await asyncio.open_connection("127.0.0.1", rig.port) for _ in range(3)]
    await asyncio.sleep(0.01)
    client = await rig.client()
    assert (await client.ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")).status == 200
    assert await silent[0][0].read() == b""
    assert rig.proxy.connection_limit.evicted == 1

    # Nor does one that has gone make room for anybody.
    for _, writer in silent:
        writer.close()
    await until(lambda: len(rig.proxy.connection_limit._connections) == 1)
    clients = [client, await rig.client(), await rig.client()]
    gate, before = Gate(replica), len(replica.requests)
    for busy in clients:
        busy.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    await until(lambda: len(replica.requests) == before + 3)
    refused = await rig.client()
    refused.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert await refused.ends() == REFUSAL
    assert rig.proxy.connection_limit.evicted == 1
    gate.open.set()
    for busy in clients:
        assert (await busy.answer()).status == 200
    assert not caplog.records
