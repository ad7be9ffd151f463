"""Three kinds of load: as much as goes (wrk), so many requests a second whatever comes back, and streams."""

import asyncio
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

import uvloop

from tests.benchmarks.peers.setup import PATH
from tests.benchmarks.recorded_replica import BODY, STREAM_BODY, TOKENS
from tests.benchmarks.wrk import drive

SENDERS = 32


def as_much_as_goes(
    port: int, folder: Path, key: str, seconds: float, connections: int, cpu: int | None, heads: str = ""
) -> int:
    """Answers within so many seconds, each connection asking again as soon as it was answered. ``heads``: how
    the requests' heads differ, in wrk's language."""
    script = folder / "post.lua"
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = '{BODY.decode()}'\n"
        "wrk.headers['Content-Type'] = 'application/json'\n"
        f"wrk.headers['Authorization'] = 'Bearer {key}'\n{heads}"
    )
    return drive(f"http://127.0.0.1:{port}{PATH}", script, seconds, connections, cpu)


def request(body: bytes, key: str) -> bytes:
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def at_a_rate(port: int, key: str, rate: float, seconds: float) -> list[float]:
    """Seconds that each request took, sent at its time whether or not those before were answered.

    One that could not be sent in time, because all senders were waiting, counts from when it was due.
    """
    sent = request(BODY, key)
    began = time.monotonic() + 0.1
    took: list[list[float]] = [[] for _ in range(SENDERS)]

    def send(number: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 30) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for place in range(number, int(rate * seconds), SENDERS):
                due = began + place / rate
                wait = due - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                    due = time.monotonic()
                connection.sendall(sent)
                read_answer(connection)
                took[number].append(time.monotonic() - due)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [one for each in took for one in each]


def read_answer(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65536)
        return
    length = int(lowered.partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)


class StreamReader(asyncio.Protocol):
    """Asks once; counts the events until the last one."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent
        self.events = 0
        self.tail = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self.sent)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.events += data.count(b'"choices"')
        self.tail = (self.tail + data)[-64:]
        if b"[DONE]" in self.tail and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"the stream broke off after {self.events} events"))


async def _streams(port: int, key: str, count: int) -> int:
    loop, sent = asyncio.get_running_loop(), request(STREAM_BODY, key)
    made = [await loop.create_connection(lambda: StreamReader(sent), "127.0.0.1", port) for _ in range(count)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(reader.done for _, reader in made))
    for transport, _ in made:
        transport.close()
    return sum(reader.events for _, reader in made)


def streams(port: int, key: str, count: int) -> int:
    """So many at a time; returns the events that arrived."""
    events = uvloop.run(_streams(port, key, count))
    if events < count * TOKENS:
        sys.exit(f"the proxy on port {port} passed on {events} of {count * TOKENS} events")
    return events


def middle_and_late(seconds: list[float]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds."""
    cut = statistics.quantiles(seconds, n=100)
    return statistics.median(seconds) * 1000, cut[98] * 1000
