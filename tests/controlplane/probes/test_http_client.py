"""Kept connections between probes: when one is used again, when not, and what its end means."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from controlplane.probes import http_client
from controlplane.probes.http_client import HandshakeFailed, NotHttp, ProbeClient, Security, encode
from routing.contract import address_policy
from routing.contract.address_policy import AddressPolicy, DeniedAddress
from routing.contract.address_rules import AddressRules
from routing.contract.addresses import BaseUrl
from routing.contract.probe_presets import ProbeRequest
from routing.tls.context_cache import new_context
from tests.certificates import Authority, server_context

ServerTls = tuple[ssl.SSLContext, Security] | None

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
GET = ProbeRequest("GET", "/health", (("Accept", "*/*"),))


class Replica(asyncio.Protocol):
    """Answers each head with ``answer``; may close afterwards."""

    answer = OK
    closes = False
    then = b""
    """What is answered from the next request on."""
    connections = 0
    heads: list[bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        type(self).connections += 1

    def data_received(self, data: bytes) -> None:
        self.heads.append(data)
        if self.answer:
            self.transport.write(self.answer)  # type: ignore[attr-defined]
        if self.closes:
            self.transport.close()
        if self.then:
            type(self).answer = self.then


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, authority: Authority) -> ServerTls:
    """How the server speaks it, and how it is verified; none over plain HTTP."""
    if request.param == "http":
        return None
    context = server_context(authority.issue("DNS:model.test"))
    return context, Security(new_context(authority.reference), "model.test")


@asynccontextmanager
async def replica(
    tls: ServerTls = None, most_kept: int = 10
) -> AsyncIterator[tuple[type[Replica], Callable[..., object]]]:
    """A replica, and how to ask it."""
    context, verified = tls or (None, None)
    kind = type("OneReplica", (Replica,), {"heads": []})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(kind, "127.0.0.1", 0, ssl=context)
    target = BaseUrl("127.0.0.1", server.sockets[0].getsockname()[1], "")

    async def resolve(host: str, port: int) -> list[str]:
        return [host]

    client = ProbeClient(resolve, most_kept)

    async def ask(
        request: ProbeRequest = GET, most_bytes: int = 1000, security: Security | None = verified
    ) -> tuple[int, bytes]:
        async with asyncio.timeout(5):
            return await client.exchange(target, request, b"", most_bytes, security)

    try:
        yield kind, ask
    finally:
        client.close()
        server.close()


def run(check: Callable[[], object]) -> None:
    asyncio.run(check())  # type: ignore[arg-type]


def test_a_connection_is_used_again(tls: ServerTls) -> None:
    async def check() -> None:
        async with replica(tls) as (server, ask):
            for _ in range(3):
                assert await ask() == (200, b"{}")
            assert (server.connections, len(server.heads)) == (1, 3)

    run(check)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno", (503, b"no")),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}")),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", (200, b"{}")),
    ],
)
def test_none_is_kept_after_a_failure_or_where_the_replica_closes(
    tls: ServerTls, answer: bytes, expected: tuple[int, bytes]
) -> None:
    async def check() -> None:
        async with replica(tls) as (server, ask):
            server.answer = answer
            assert await ask() == await ask() == expected
            assert server.connections == 2

    run(check)


def test_a_kept_connection_that_the_replica_closed_costs_no_probe(tls: ServerTls) -> None:
    async def check() -> None:
        async with replica(tls) as (server, ask):
            await ask()
            server.answer, server.closes = b"", True  # the kept one is closed when it is used
            server.then = OK
            assert await ask() == (200, b"{}")
            assert server.connections == 2

    run(check)


def test_a_fresh_connection_that_ends_without_a_word_is_the_replicas_failure(tls: ServerTls) -> None:
    async def check() -> None:
        async with replica(tls) as (server, ask):
            server.answer, server.closes = b"", True
            with pytest.raises(EOFError):
                await ask()
            assert server.connections == 1

    run(check)


def test_an_old_connection_is_not_used_again(tls: ServerTls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "OLDEST_S", 0.02)

    async def check() -> None:
        async with replica(tls) as (server, ask):
            await ask()
            await asyncio.sleep(0.03)
            await ask()
            assert server.connections == 2

    run(check)


def test_a_policy_that_has_changed_is_asked_again(tls: ServerTls) -> None:
    async def check() -> None:
        async with replica(tls) as (server, ask):
            await ask()
            before = address_policy.use(AddressPolicy(AddressRules(denied=("127.0.0.1/32",))))
            try:
                with pytest.raises(DeniedAddress):
                    await ask()
            finally:
                address_policy.use(before)
            assert len(server.heads) == 1

    run(check)


def test_another_trust_or_name_is_verified_on_a_connection_of_its_own(authority: Authority) -> None:
    trust = new_context(authority.reference)
    context = server_context(authority.issue("DNS:model.test", "DNS:other.test"))

    async def check() -> None:
        async with replica((context, Security(trust, "model.test"))) as (server, ask):
            await ask()
            await ask(security=Security(trust, "other.test"))
            await ask(security=Security(new_context(authority.reference), "model.test"))
            assert server.connections == 3
            with pytest.raises(HandshakeFailed) as failed:
                await ask(security=Security(trust, "third.test"))
            assert isinstance(failed.value.cause, ssl.SSLCertVerificationError)
            with pytest.raises(HandshakeFailed):
                await ask(security=Security(new_context(""), "model.test"))
            assert len(server.heads) == 3

    run(check)


def test_over_tls_fewer_are_kept(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_TLS", 1)
    trust = new_context(authority.reference)
    context = server_context(authority.issue("DNS:model.test", "DNS:other.test"))

    async def check() -> None:
        async with replica((context, Security(trust, "model.test"))) as (server, ask):
            for _ in range(3):
                await ask()
                await ask(security=Security(trust, "other.test"))
            assert server.connections == 1 + 3, "the one that is kept stays, and is used"

    run(check)


def test_beyond_so_many_none_are_kept() -> None:
    async def check() -> None:
        async with replica(most_kept=0) as (server, ask):
            await ask()
            await ask()
            assert server.connections == 2

    run(check)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, (200, b"{}")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", (200, b"{}")),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", (200, b"until the end")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
    ],
)
def test_how_an_answer_may_end(answer: bytes, expected: tuple[int, bytes]) -> None:
    async def check() -> None:
        async with replica() as (server, ask):
            server.answer, server.closes = answer, True
            assert await ask() == expected

    run(check)


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]
)
def test_what_is_not_a_whole_answer(answer: bytes) -> None:
    async def check() -> None:
        async with replica() as (server, ask):
            server.answer, server.closes = answer, True
            with pytest.raises(NotHttp):
                await ask()

    run(check)


def test_an_answer_to_head_has_no_body() -> None:
    async def check() -> None:
        async with replica() as (server, ask):
            server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
            assert await ask(ProbeRequest("HEAD", "/")) == (200, b"")

    run(check)


def test_of_a_long_body_the_beginning_is_read() -> None:
    async def check() -> None:
        async with replica() as (server, ask):
            server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + 5000 * b"x"
            assert await ask(most_bytes=100) == (200, 100 * b"x")
            assert await ask(most_bytes=100) == (200, 100 * b"x")
            assert server.connections == 2

    run(check)


def test_no_control_character_is_sent() -> None:
    with pytest.raises(OSError, match="control character"):
        encode(BaseUrl("a", 80, ""), ProbeRequest("GET", "/x\r\nHost: b"), b"")
