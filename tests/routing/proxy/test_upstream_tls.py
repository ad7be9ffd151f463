"""Replicas over TLS: what is verified, what a failure says, and all else as in plain HTTP."""

import asyncio
import os
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from routing.contract.policy import Policy, Timeouts
from routing.contract.table import Tls
from routing.tls import context_cache, reload_cache
from tests.certificates import Authority, server_context
from tests.routing.proxy.exchange.test_tunnel import ASKED, switch
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Seen, answer_bytes, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> Path:
    return authority.issue("DNS:model.test", "IP:127.0.0.1")


@pytest.fixture
async def secure(rig: Rig, authority: Authority, certificate: Path) -> Replica:
    """The one replica of the default fleet, over TLS."""
    replica = await rig.replica(tls=server_context(certificate))
    rig.fleet(replica, tls=Tls(ca=authority.reference))
    return replica


@pytest.fixture
async def secure_client(rig: Rig, secure: Replica) -> Client:
    return await rig.client()


async def test_a_replica_is_verified_by_its_address(secure: Replica, secure_client: Client) -> None:
    for _ in range(2):
        answer = await secure_client.ask(GET)
        assert (answer.status, answer.body) == (200, b"ok")
    assert len(secure.connections) == 1
    assert secure.requests[0].get(b"host") == [b"127.0.0.1:%d" % secure.port]
    spoken = secure.connections[0].transport.get_extra_info("ssl_object")
    assert spoken.version() in ("TLSv1.2", "TLSv1.3")


async def test_a_server_name_stands_for_the_address(rig: Rig, authority: Authority) -> None:
    asked: list[str | None] = []
    context = authority.server("DNS:*.models.test")
    context.sni_callback = lambda connection, name, of: asked.append(name)
    replica = await rig.replica(tls=context)
    rig.fleet(replica, tls=Tls(ca=authority.reference, server_name="a.models.test"))
    client = await rig.client()
    assert (await client.ask(GET)).status == 200
    assert asked == ["a.models.test"]


Arrange = Callable[[Replica, Authority, Path], Tls]


def _unknown(replica: Replica, authority: Authority, folder: Path) -> Tls:
    return Tls()


def _other_ca(replica: Replica, authority: Authority, folder: Path) -> Tls:
    return Tls(ca=Authority(folder, "other").reference)


def _wrong_name(replica: Replica, authority: Authority, folder: Path) -> Tls:
    return Tls(ca=authority.reference, server_name="other.test")


def _wrong_host(replica: Replica, authority: Authority, folder: Path) -> Tls:
    replica.host = "localhost"  # the certificate's subject, which is no name of it
    return Tls(ca=authority.reference)


def _no_file(replica: Replica, authority: Authority, folder: Path) -> Tls:
    return Tls(ca=f"file:{folder}/nothing.pem")


def _no_variable(replica: Replica, authority: Authority, folder: Path) -> Tls:
    return Tls(ca="env:SWITCHYARD_TEST_NO_CA")


def _no_pem(replica: Replica, authority: Authority, folder: Path) -> Tls:
    (folder / "bad.pem").write_text("s3cret")
    return Tls(ca=f"file:{folder}/bad.pem")


def _bad_pem(replica: Replica, authority: Authority, folder: Path) -> Tls:
    (folder / "bad.pem").write_text(authority.certificate.read_text().replace("MII", "M*I"))
    return Tls(ca=f"file:{folder}/bad.pem")


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (_unknown, "the certificate's issuer is not trusted: set tls.ca to the CA that issued it"),
        (_other_ca, "the certificate's issuer is not trusted: set tls.ca to the CA that issued it"),
        (_wrong_name, "the certificate is not for other.test (see tls.server_name)"),
        (_wrong_host, "the certificate is not for localhost (see tls.server_name)"),
        (_no_file, "nothing.pem cannot be read: No such file or directory"),
        (_no_variable, "tls.ca env:SWITCHYARD_TEST_NO_CA is an environment variable that is not set here"),
        (_no_pem, "bad.pem holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"),
        (_bad_pem, "bad.pem holds a certificate that cannot be read: "),
    ],
)
async def test_nothing_is_sent_unverified(
    rig: Rig, authority: Authority, certificate: Path, tmp_path: Path, arrange: Arrange, words: str
) -> None:
    replica = await rig.replica(tls=server_context(certificate))
    rig.fleet(replica, tls=arrange(replica, authority, tmp_path))
    client = await rig.client()
    answer = await client.ask(POST)
    assert answer.status == 502
    assert b"the replica is not verified: " in answer.body
    assert words.encode() in answer.body, answer.body
    assert b"s3cret" not in answer.body
    assert not replica.requests
    assert all(not connection.received for connection in replica.connections)


async def test_an_expired_certificate(rig: Rig, authority: Authority) -> None:
    replica = await rig.replica(tls=authority.server("IP:127.0.0.1", days=-1))
    rig.fleet(replica, tls=Tls(ca=authority.reference))
    client = await rig.client()
    answer = await client.ask(GET)
    assert answer.status == 502
    assert b"the certificate has expired: renew it" in answer.body


ALERT = b"\x15\x03\x01\x00\x02\x02"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS is spoken there: is the URL http://?"),
        (ALERT + b"\x46", "TLS 1.2 or newer is not spoken there"),
        (ALERT + b"\x74", "a client's certificate is wanted there, and none can be given"),
        (ALERT + b"\x28", "no TLS connection: sslv3 alert handshake failure"),
        (b"", "the connection was closed during the TLS handshake"),
    ],
)
async def test_what_answers_a_handshake_otherwise(
    rig: Rig, certificate: Path, said: bytes, words: str
) -> None:
    def answer(connection: ReplicaConnection, data: bytes) -> None:
        connection.tunnel = True
        connection.transport.write(said)
        connection.transport.close()

    plain = await rig.replica()
    plain.on_data = answer
    plain.tls = server_context(certificate)  # in its URL only
    rig.fleet(plain)
    client = await rig.client()
    refused = await client.ask(GET)
    assert refused.status == 502
    assert words.encode() in refused.body, refused.body


def test_what_is_offered() -> None:
    context = context_cache.new_context("")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_another_replica_is_asked_instead(
    rig: Rig, secure: Replica, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    expired = await rig.replica("expired", authority.server("IP:127.0.0.1", days=-1))
    rig.fleet(expired, secure, tls=Tls(ca=authority.reference))
    client = await rig.client()
    answers = [await client.ask(POST) for _ in range(12)]
    assert [answer.status for answer in answers] == [200] * 12
    retried = [answer.get(b"x-switchyard-retry-reason") for answer in answers]
    assert [b"tls_failed"] in retried
    state = rig.table.fleets["f"].replicas[0].ejection
    await until(lambda: state.until)
    assert "is not verified: the certificate has expired" in state.reason
    said = [record.message for record in caplog.records if "no verified connection" in record.message]
    assert said == [
        f"no verified connection to 127.0.0.1:{expired.port}: the certificate has expired: renew it"
    ]


async def test_a_renewed_file_is_read_without_a_restart(
    rig: Rig, authority: Authority, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_cache, "LOOK_EVERY_S", 0.0)
    file = tmp_path / "trusted.pem"
    file.write_text(Authority(tmp_path, "former").certificate.read_text())
    replica = await rig.replica(tls=server_context(certificate))
    rig.fleet(replica, tls=Tls(ca=f"file:{file}"))
    client = await rig.client()
    assert (await client.ask(GET)).status == 502
    shutil.copy(authority.certificate, tmp_path / "new.pem")
    (tmp_path / "new.pem").rename(file)
    assert (await client.ask(GET)).status == 200
    file.unlink()
    assert (await client.ask(GET)).status == 200, "an open connection goes on"
    await replica.stop()
    await replica.start()
    answer = await client.ask(GET)
    assert b"cannot be read" in answer.body


def test_what_could_not_be_read_is_tried_again(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nothing shows that it was written to."""
    monkeypatch.setattr(reload_cache, "LOOK_EVERY_S", 0.0)
    file, good = tmp_path / "ca.pem", authority.certificate.read_text()
    file.write_text(good.replace("BEGIN", "BEGAN"))
    before = file.stat()
    found = context_cache.TlsContextCache()
    with pytest.raises(context_cache.CaBundleError, match="holds no certificate"):
        found.get(f"file:{file}")
    file.write_text(good)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    context = found.get(f"file:{file}")
    assert found.get(f"file:{file}") is context


async def test_new_rules_keep_requests_in_flight_and_no_connection(
    rig: Rig, secure: Replica, authority: Authority, tmp_path: Path
) -> None:
    go_on = asyncio.Event()

    async def slowly(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: 4\r\n\r\nab")
        await go_on.wait()
        connection.transport.write(b"cd")

    idle, busy = await rig.client(), await rig.client()
    secure.script = slowly
    busy.send(GET)
    await until(lambda: secure.requests)
    secure.script = answer_bytes(OK + b"Content-Length: 2\r\n\r\nok")
    assert (await idle.ask(GET)).status == 200
    assert len(secure.open) == 2
    rig.fleet(secure, tls=Tls(ca=Authority(tmp_path, "new").reference))
    await until(lambda: len(secure.open) == 1, 1)
    assert (await idle.ask(GET)).status == 502, "what was verified otherwise is not used again"
    go_on.set()
    answer = await busy.answer()
    assert (answer.status, answer.body) == (200, b"abcd")
    await until(lambda: not secure.open, 1)
    rig.fleet(secure, tls=Tls(ca=authority.reference, server_name="model.test"))
    assert (await busy.ask(GET)).status == 200


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_that_leaves_is_seen_at_once(
    secure: Replica, secure_client: Client, streaming: bool
) -> None:
    begin = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" if streaming else b""
    secure.script = answer_bytes(begin)
    secure_client.send(GET)
    await until(lambda: secure.requests)
    if streaming:
        await secure_client.reader.readuntil(b"ab\r\n")
    left = time.monotonic()
    secure_client.abort()
    await until(lambda: not secure.open)
    assert secure.connections[0].closed_at - left < 0.1


class Silent(asyncio.Protocol):
    """Takes a connection and says nothing, whatever comes."""

    received = b""
    closed_at = 0.0

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed_at = time.monotonic()


@pytest.fixture
async def silent(rig: Rig, secure: Replica, authority: Authority) -> AsyncIterator[Silent]:
    """The one replica of the default fleet never answers a handshake. ``connect_s`` is 0.3."""
    seen = Silent()
    server = await asyncio.get_running_loop().create_server(lambda: seen, "127.0.0.1", 0)
    hanging = Replica("hanging", secure.tls)
    hanging.port = server.sockets[0].getsockname()[1]
    policy = Policy(strategy="round_robin", slow_start_s=0, timeouts=Timeouts(connect_s=0.3))
    rig.fleet(hanging, tls=Tls(ca=authority.reference), policy=policy)
    yield seen
    server.close()


async def test_a_handshake_counts_as_connecting(rig: Rig, silent: Silent) -> None:
    client = await rig.client()
    began = time.monotonic()
    answer = await client.ask(GET)
    assert answer.status == 503
    assert b"no connection within 0.3 s" in answer.body
    assert 0.3 <= time.monotonic() - began < 5.0
    await until(lambda: silent.closed_at)
    assert silent.received[:3] == b"\x16\x03\x01", "a ClientHello"


async def test_a_client_that_leaves_ends_the_handshake(rig: Rig, silent: Silent) -> None:
    client = await rig.client()
    client.send(GET)
    await until(lambda: silent.received)
    left = time.monotonic()
    client.abort()
    await until(lambda: silent.closed_at)
    assert silent.closed_at - left < 0.1


async def test_an_idle_connection_that_was_closed_is_not_used(
    secure: Replica, secure_client: Client, rig: Rig
) -> None:
    assert (await secure_client.ask(POST)).status == 200
    secure.connections[0].transport.close()
    await until(lambda: rig.proxy.upstreams == 0)
    assert (await secure_client.ask(POST)).status == 200
    assert len(secure.connections) == 2


@pytest.mark.parametrize("said", [True, False])
async def test_only_a_goodbye_ends_an_answer_without_a_length(
    secure: Replica, secure_client: Client, said: bool
) -> None:
    """RFC 9112 §9.8: without one, somebody on the way may have cut it."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"\r\nhello")
        await asyncio.sleep(0)
        if said:
            connection.transport.close()
        else:
            raw = connection.transport.get_extra_info("socket")
            socket.socket(fileno=raw.fileno()).shutdown(socket.SHUT_WR)

    secure.script = script
    answer = await secure_client.ask(GET)
    assert answer.body == b"hello"
    assert answer.complete is said


async def test_a_tunnel(secure: Replica, secure_client: Client) -> None:
    secure.script = switch
    assert (await secure_client.ask(ASKED)).status == 101
    connection = secure.connections[0]
    secure_client.send(b"from the client")
    await until(lambda: bytes(connection.received).endswith(b"from the client"))
    connection.transport.write(b"from the replica")
    assert await secure_client.reader.readexactly(16) == b"from the replica"
    secure_client.send(b"the last")
    secure_client.half_close()
    await until(lambda: connection.closed)
    assert bytes(connection.received).endswith(b"the last")


async def test_a_slow_client_pauses_the_replica(secure: Replica, secure_client: Client) -> None:
    paused: list[float] = []

    class Counting:
        written = 0

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n" % (64 << 20))
        while Counting.written < 64 << 20:
            if connection.transport.get_write_buffer_size() < 1 << 20:
                connection.transport.write(bytes(1 << 18))
                Counting.written += 1 << 18
            else:
                paused.append(time.monotonic())
            await asyncio.sleep(0)

    secure.script = script
    secure_client.writer.transport.pause_reading()
    secure_client.send(GET)
    await until(lambda: len(paused) > 200)
    assert Counting.written < 32 << 20
    secure_client.writer.transport.resume_reading()
    answer = await secure_client.answer()
    assert len(answer.body) == 64 << 20


async def test_replicas_in_plain_http_are_asked_as_before(rig: Rig, secure: Replica) -> None:
    plain = await rig.replica()
    rig.fleet(plain, secure, tls=Tls(server_name="model.test"))
    client = await rig.client()
    assert [(await client.ask(GET)).status for _ in range(4)] == [200] * 4
    assert plain.requests
