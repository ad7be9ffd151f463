"""A burst that is held for the first replica of a fleet, released at once by two workers: the limit holds."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import Proxy, fleet_file, until

ROUNDS = 6
BURST = 30
LIMIT = 1
POLICY = {
    "strategy": "least_connections",
    "slow_start_s": 0,
    "max_concurrency": LIMIT,
    "queue": {"size": 64, "timeout_s": 30, "cold": "hold", "cold_timeout_s": 30},
}


class CountingServer:
    """Answers each request after a moment, and notes how many it had at once."""

    def __init__(self) -> None:
        self.now = self.most = self.served = 0
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.now += 1
                self.most = max(self.most, self.now)
                await asyncio.sleep(0.003)
                # Before the answer: the proxy gives the slot away as soon as it has that.
                self.now -= 1
                self.served += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def stop(self) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class Named:
    """A replica of the fleet file."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url


async def ask(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


async def test_the_limit_holds_when_the_first_replica_of_a_fleet_takes_what_was_held(
    proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    server = CountingServer()
    await server.start()
    path = tmp_path / "fleets.yaml"
    file = fleet_file(path, [], policy=POLICY)
    running = await asyncio.to_thread(lambda: proxy("--fleets", str(file), "--workers", "2").ready())

    def all_wait() -> bool:
        return f'switchyard_queue_waiting{{fleet="echo"}} {BURST}\n' in running.admin("/metrics")[1]

    most = []
    for number in range(ROUNDS):
        server.most = 0
        burst = [asyncio.create_task(ask(running.port)) for _ in range(BURST)]
        await asyncio.to_thread(until, all_wait, "all wait")
        fleet_file(path, [Named(f"r{number}", server.url)], policy=POLICY)  # type: ignore[list-item]
        assert await asyncio.gather(*burst) == [200] * BURST
        most.append(server.most)
        fleet_file(path, [], policy=POLICY)
        await asyncio.to_thread(until, lambda: not running.status()["fleets"]["echo"]["replicas"], "gone")
    assert most == [LIMIT] * ROUNDS
    await server.stop()
