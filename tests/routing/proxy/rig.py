"""Real sockets for proxy tests: replicas that follow a script, and a client that sends raw bytes."""

import asyncio
import contextlib
import os
import re
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import h11
from msgspec.structs import replace

import routing
from routing.balancing.pool.table import Table
from routing.contract.exposure import Expose
from routing.contract.policy import Policy, Timeouts
from routing.contract.probe import Probe
from routing.contract.table import (
    AcceleratorSpec,
    ApiProtocol,
    FleetSnapshot,
    KeyLimits,
    Manifest,
    Match,
    ReplicaSpec,
)
from routing.contract.table import Tls as ReplicaTls
from routing.proxy import Proxy, ProxySettings
from tests.ports import free_port, unaccepting_port
from tests.routing.proxy.segments import NotedClient, write_bytewise

OK = b"HTTP/1.1 200 OK\r\n"
OK_ANSWER = OK + b"Content-Length: 2\r\n\r\nok"
LIMIT_S = 10.0
_DATE = re.compile(rb"\r\nDate: ([^\r]{29})(?=\r\n|\Z)")
NO_CREDENTIALS: Mapping[str, str] = {}
SERVING_ALL: Mapping[str, list[str]] = {}
NOT_ON_DEVICES: Mapping[str, dict[str, Any]] = {}
_PATIENT = Policy(strategy="round_robin", slow_start_s=0, timeouts=Timeouts(connect_s=LIMIT_S))
"""A busy machine may take longer to connect than a fleet allows by default."""


async def until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait for a condition; fail when it does not come true in time."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.002)


@dataclass
class Seen:
    """One complete request as a replica saw it."""

    head: bytes
    """With its empty line."""
    body: bytes
    connection: "ReplicaConnection"

    @property
    def line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def fields(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case."""
        lines = self.head.split(b"\r\n")[1:-2]
        pairs = (line.partition(b":") for line in lines)
        return [(name.lower(), value.strip()) for name, _, value in pairs]

    def get(self, name: bytes) -> list[bytes]:
        return [value for known, value in self.fields if known == name]


Script = Callable[["ReplicaConnection", Seen], Awaitable[None]]


class ReplicaConnection(asyncio.Protocol):
    """One connection that the proxy opened to a replica."""

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.transport: asyncio.Transport
        self.received = bytearray()
        """Every byte so far."""
        self.closed = False
        self.closed_at = 0.0
        self.tunnel = False
        """Set it, and what comes is no request any more."""
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        self._head_at = 0
        self._body = bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.replica.connections.append(self)
        if self.replica.on_connect is not None:
            self.replica.on_connect(self)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.replica.on_data is not None:
            self.replica.on_data(self, data)
        if not self.tunnel:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._parser.receive_data(data)
        while True:
            event = self._parser.next_event()
            if isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                rest = self._parser.trailing_data[0]
                whole = bytes(self.received[self._head_at : len(self.received) - len(rest)])
                head = whole[: whole.index(b"\r\n\r\n") + 4]
                self._head_at = len(self.received) - len(rest)
                seen = Seen(head, bytes(self._body), self)
                self.replica.requests.append(seen)
                self._body.clear()
                self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
                self._task = asyncio.get_running_loop().create_task(self._answer(seen))
                if not rest:
                    return
                self._parser.receive_data(rest)
            elif event is h11.NEED_DATA:
                return

    async def _answer(self, seen: Seen) -> None:
        try:
            await self.replica.script(self, seen)
        except RuntimeError:  # uvloop's, where the proxy has gone before the answer was written
            if not self.transport.is_closing():
                raise

    def eof_received(self) -> None:
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()

    def _close(self) -> None:
        if not self.closed:
            self.closed = True
            self.closed_at = time.monotonic()

    @property
    def incomplete(self) -> bool:
        """A request has begun here and is not complete."""
        return len(self.received) > self._head_at

    @property
    def incomplete_bytes(self) -> bytes:
        """All of such a request."""
        return bytes(self.received[self._head_at :])


async def answer_ok(connection: ReplicaConnection, seen: Seen) -> None:
    connection.transport.write(OK_ANSWER)


CHAT_BODY = b'{"choices":[{"message":{"role":"assistant","content":"ok"}}]}'
INFER_BODY = b'{"outputs":[{"name":"y","shape":[1],"datatype":"INT8","data":[1]}]}'


def answer_body(body: bytes) -> Script:
    """A script that answers so: a replica whose bodies are no answers of their protocol is asked less."""
    return answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def answer_bytes(answer: bytes, then: str = "") -> Script:
    """A script that writes ``answer``, then closes (``fin``), resets (``rst``) or leaves it open."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if answer:
            connection.transport.write(answer)
        if then == "fin":
            connection.transport.close()
        elif then == "rst":
            reset(connection.transport)

    return script


def reset(transport: asyncio.Transport) -> None:
    """Close with RST, after what is written has gone out."""
    linger_not(transport)
    asyncio.get_running_loop().call_later(0.05, transport.abort)


def linger_not(transport: asyncio.BaseTransport) -> None:
    """Have the kernel reset the connection when it is closed."""
    raw = transport.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Replica:
    """A scripted server on a port of its own; with ``tls`` it speaks TLS there."""

    def __init__(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.tls = tls
        self.host = "127.0.0.1"
        """In its URL."""
        self.address = "127.0.0.1"
        """It listens there."""
        self.script: Script = answer_ok
        self.on_connect: Callable[[ReplicaConnection], None] | None = None
        self.on_data: Callable[[ReplicaConnection, bytes], None] | None = None
        self.requests: list[Seen] = []
        self.connections: list[ReplicaConnection] = []
        self.port = free_port()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ReplicaConnection(self), self.address, self.port, ssl=self.tls
        )

    async def stop(self) -> None:
        """Refuse connections and cut those that are open."""
        if self._server is not None:
            self._server.close()
            for connection in self.connections:
                connection.transport.abort()
            self._server = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}"

    @property
    def open(self) -> list[ReplicaConnection]:
        return [connection for connection in self.connections if not connection.closed]


class Gate:
    """A replica that answers once it is let."""

    def __init__(self, replica: Replica) -> None:
        self.open = asyncio.Event()
        replica.script = self

    async def __call__(self, connection: ReplicaConnection, seen: Seen) -> None:
        await self.open.wait()
        connection.transport.write(OK_ANSWER)


@contextlib.contextmanager
def unreachable() -> Iterator[Replica]:
    """A replica whose connections are never established: its accept queue is full."""
    with unaccepting_port() as port:
        replica = Replica("unreachable")
        replica.port = port
        yield replica


def undated(data: bytes) -> bytes:
    """Less the first Date, which the proxy adds where a replica gives none; it must be of this minute."""
    dated = _DATE.search(data)
    if dated is None:
        return data
    assert abs(parsedate_to_datetime(dated[1].decode()).timestamp() - time.time()) < 60
    return data[: dated.start()] + data[dated.end() :]


@dataclass
class Answer:
    """One response as a client read it."""

    status: int
    head: bytes
    body: bytes
    complete: bool
    """Whether the body's end was told (by length, last chunk, or orderly close)."""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)

    def get(self, name: bytes) -> list[bytes]:
        return [value for known, value in self.fields if known == name]


class Client:
    """A raw connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.port: int = writer.get_extra_info("sockname")[1]
        self.accepted: dict[int, NotedClient] = {}

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None = None) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22, ssl=tls))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def send_bytewise(self, data: bytes) -> None:
        """One byte per segment, as the proxy reads it."""
        await until(lambda: self.port in self.accepted)
        await write_bytewise(self.writer.transport, self.accepted[self.port], data)

    async def answer(self, method: bytes = b"GET", limit_s: float = LIMIT_S) -> Answer:
        """The next response. An incomplete body is returned as such."""
        async with asyncio.timeout(limit_s):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.split(b"\r\n")[1:-2]
            pairs = [line.partition(b":") for line in lines]
            fields = [(name.lower(), value.strip()) for name, _, value in pairs]
            answer = Answer(int(head.split(b" ")[1]), head, b"", True, fields)
            if method == b"HEAD" or answer.status < 200 or answer.status in (204, 304):
                return answer
            if answer.get(b"transfer-encoding"):
                await self._chunks(answer)
            elif length := answer.get(b"content-length"):
                try:
                    answer.body = await self.reader.readexactly(int(length[0]))
                except asyncio.IncompleteReadError as error:
                    answer.body, answer.complete = error.partial, False
            else:
                try:
                    while piece := await self.reader.read(65_536):
                        answer.body += piece
                except ConnectionError:
                    answer.complete = False
            return answer

    async def _chunks(self, answer: Answer) -> None:
        try:
            while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
                answer.body += await self.reader.readexactly(size)
                assert await self.reader.readexactly(2) == b"\r\n"
            assert await self.reader.readexactly(2) == b"\r\n", "no trailers are forwarded"
        except (asyncio.IncompleteReadError, ConnectionError):
            answer.complete = False

    async def ask(self, request: bytes) -> Answer:
        self.send(request)
        return await self.answer(request.split(b" ")[0])

    async def ends(self, limit_s: float = 1.5) -> bytes:
        """What still comes before the connection ends, which it must do in time."""
        async with asyncio.timeout(limit_s):
            try:
                return await self.reader.read(-1)
            except ConnectionError:
                return b""

    def half_close(self) -> None:
        """A FIN, without a close_notify before it."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            raw = self.writer.transport.get_extra_info("socket")
            with socket.socket(fileno=os.dup(raw.fileno())) as same:
                same.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Reset. (An orderly end would wait behind bytes that the proxy does not read.)"""
        linger_not(self.writer.transport)
        self.writer.transport.abort()


class Tls(NamedTuple):
    """How the proxy and its clients speak to each other."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Rig:
    """One proxy in this event loop, before scripted replicas."""

    def __init__(self, tls: Tls | None = None) -> None:
        self.tls = tls
        self.replicas: list[Replica] = []
        self.table = Table()
        self.proxy: Proxy
        self.port = 0
        self._server: asyncio.Server
        self._clients: list[Client] = []
        self._accepted: dict[int, NotedClient] = {}
        """The proxy's side of each client's connection, by the client's port."""
        self._descriptors = 0
        self._version = 0

    async def start(self, settings: ProxySettings | None = None) -> None:
        self._descriptors = _open_descriptors()
        self.proxy = Proxy(self.table, settings)
        if self.tls is not None:
            self.proxy.speak_tls(self.tls.server)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self) -> asyncio.Protocol:
        if self.tls is not None:
            return self.proxy.connection()
        return NotedClient(self.proxy, self._accepted)

    async def replica(self, name: str = "", tls: ssl.SSLContext | None = None) -> Replica:
        replica = Replica(name or f"r{len(self.replicas)}", tls)
        await replica.start()
        self.replicas.append(replica)
        return replica

    def fleet(
        self,
        *replicas: Replica,
        name: str = "f",
        protocol: ApiProtocol = "generic",
        policy: Policy | None = None,
        served_model: str = "",
        aliases: tuple[str, ...] = (),
        adapters: tuple[str, ...] = (),
        default: bool = True,
        match: tuple[Match, ...] = (),
        draining: tuple[Replica, ...] = (),
        tls: ReplicaTls | None = None,
        credentials: Mapping[str, str] = NO_CREDENTIALS,
        devices: tuple[AcceleratorSpec, ...] = (),
        on_devices: Mapping[str, dict[str, Any]] = NOT_ON_DEVICES,
        probe: Probe | None = None,
        expose: Expose | None = None,
        prefix: str = "",
        serving: Mapping[str, list[str]] = SERVING_ALL,
    ) -> None:
        """Add a fleet to the table, or replace it. ``credentials``: replica's name → reference. ``devices``:
        those of the table, if they change. ``on_devices``: replica's name → its fields about them.
        ``prefix``: path prefix of the replicas' URLs. ``serving``: replica's name → the adapters that it
        lists."""
        self._version += 1
        old = self.table.manifest
        fleets = {**old.fleets, name: self._version}
        names = {**old.aliases, **dict.fromkeys(aliases, name)}
        matches = {**old.matches, name: list(match)}
        chosen = name if default else old.default
        self.table.apply_manifest(
            Manifest(
                epoch=1,
                version=self._version,
                fleets=fleets,
                aliases=names,
                adapters={**old.adapters, **dict.fromkeys(adapters, name)},
                matches={fleet: listed for fleet, listed in matches.items() if listed},
                default=chosen,
                accelerators=list(devices) or old.accelerators,
                key_hashes=old.key_hashes,
                key_limits=old.key_limits,
                key_salt=old.key_salt,
            )
        )
        self.table.apply_snapshot(
            FleetSnapshot(
                epoch=1,
                version=self._version,
                revision=1,
                name=name,
                probe=probe or Probe(),
                protocol=protocol,
                policy=policy or _PATIENT,
                served_model=served_model,
                aliases=list(aliases),
                adapters=list(adapters),
                tls=tls or ReplicaTls(),
                expose=expose,
                replicas=[
                    ReplicaSpec(
                        uid=f"{name}-{r.name}",
                        name=r.name,
                        url=r.url + prefix,
                        admin_state="draining" if r in draining else "active",
                        credential=credentials.get(r.name, ""),
                        adapters=serving.get(r.name),
                        **on_devices.get(r.name, {}),
                    )
                    for r in replicas
                ],
            )
        )

    def keys(
        self,
        salt: str,
        hashes: dict[str, list[str]],
        limits: dict[str, KeyLimits] | None = None,
        required: bool | None = None,
    ) -> None:
        """Client keys in force from now on: hash → fleets, and what each may use; and whether every request
        needs one."""
        self._version += 1
        manifest = replace(
            self.table.manifest,
            version=self._version,
            key_salt=salt,
            key_hashes=hashes,
            key_limits=limits or {},
            keys_required=required,
        )
        self.table.apply_manifest(manifest)

    async def client(self) -> Client:
        client = await Client.open(self.port, None if self.tls is None else self.tls.client)
        client.accepted = self._accepted
        self._clients.append(client)
        return client

    async def stop(self) -> None:
        for client in self._clients:
            client.abort()
        self._server.close()
        await until(lambda: self.proxy.clients == 0)
        for replica in self.replicas:
            await replica.stop()
        await until(lambda: self.proxy.upstreams == 0)
        self.check_books()
        await until(lambda: not _tasks_of_the_proxy())
        await until(lambda: _open_descriptors() <= self._descriptors)

    def check_books(self) -> None:
        """Nothing is in flight any more: every attempt was settled, every request ended."""
        for pool in self.table.fleets.values():
            assert pool.counters.in_flight == 0, pool
            assert pool.totals.report().error_count == pool.counters.errors, pool
            assert pool.totals.report().retries == pool.counters.retries, pool
            for replica in pool.replicas:
                assert replica.in_flight == 0, replica
                assert replica.work == 0.0, replica
                assert replica.memory is None or replica.memory.is_idle, replica
        pools = self.table.fleets.values()
        went = sum(sum(causes.values()) for pool in pools for causes in pool.counters.fallbacks.values())
        begun = sum(pool.counters.requests for pool in pools)
        assert sum(pool.totals.report().requests for pool in pools) == begun - went, "each ends once"
        for device in self.table.memory.devices.values():
            assert device.leased == 0, device
            assert not device.reserved, device
        assert self.proxy.bodies.used == 0
        assert self.proxy.key_quotas.in_flight() == 0


_ROUTING = os.path.dirname(routing.__file__) + os.sep


def _is_of_routing(task: asyncio.Task[object]) -> bool:
    # A compiled coroutine has no code object, and nothing else here is compiled.
    code = getattr(task.get_coro(), "cr_code", None)
    return code is None or code.co_filename.startswith(_ROUTING)


def _tasks_of_the_proxy() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if _is_of_routing(task)]


def _open_descriptors() -> int:
    """Of this process: sockets, and what watches them. Other files are the test's."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(("socket:", "anon_inode:[eventpoll]"))
    return count


StartRig = Callable[[ProxySettings], Awaitable[Rig]]
