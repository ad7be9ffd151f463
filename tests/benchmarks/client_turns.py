"""What a burst of one client does to another: ``python -m tests.benchmarks.client_turns [--tree PATH]``.

One replica with ``max_concurrency`` stands behind a real proxy, run from a fleet file with two client keys.
The first key sends requests at random (Poisson), which take a small part of what the replica can do. That
is measured alone. Then the other key sends ten times as many at the same time; together that is more than the
replica can do. All requests are alike. Of the first key's, the table has the time from sending one until its
response is whole, and the part of that in which the replica did not work on it: the wait for a slot, and the
proxy. The last column is what was refused (503). At the replica requests take random times (exponential);
with ``--fixed`` all take the same, and slots become free in step.

``--tree`` measures another checkout's proxy as well, in turns with this one; clients and replica are this
program's in any case. The kernel distributes connections over the ``--workers`` of the proxy. On a machine
that is busy with other work give longer ``--service-ms``, so that its delays are a smaller part.
"""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from routing.contract.client_keys import new_key
from tests.benchmarks.processes import running, two_cpus
from tests.ports import free_ports

TIMES = 10
"""So many requests of the other key come for one of the first."""
BODY = b'{"prompt": "' + b"x" * 400 + b'"}'
FLEETS = """version: 1
fleets:
  - name: m
    protocol: generic
    policy: {{max_concurrency: {slots}, slow_start_s: 0}}
    replicas: [{{name: r, url: "http://127.0.0.1:{port}"}}]
client_keys: [{{name: first, key: "file:first"}}, {{name: other, key: "file:other"}}]
"""


class Replica:
    """Takes so long for a request as its path says, in microseconds, whatever else it has."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(BODY))
                await asyncio.sleep(int(head.split(b" ", 2)[1].rpartition(b"/")[2]) / 1e6)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()


@dataclass
class Waits:
    """Of one key's requests, in seconds."""

    responses: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    refused: int = 0

    def add(self, more: "Waits") -> None:
        self.responses += more.responses
        self.waits += more.waits
        self.refused += more.refused


class Client:
    """Sends requests with one key, whether or not earlier ones were answered (open loop)."""

    def __init__(self, port: int, key: str) -> None:
        self.found = Waits()
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._sent: set[asyncio.Task[None]] = set()

    async def send(self, rate: float, seconds: float, service: list[float], rng: Random) -> None:
        """So many a second; each takes one of the times of ``service``."""
        loop = asyncio.get_running_loop()
        begin = at = loop.time()
        while (at := at + rng.expovariate(rate)) < begin + seconds:
            await asyncio.sleep(at - loop.time())
            task = asyncio.create_task(self._ask(at, rng.choice(service)))
            self._sent.add(task)
            task.add_done_callback(self._sent.discard)

    async def _ask(self, at: float, takes_s: float) -> None:
        reader, writer = (
            self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        )
        writer.write(f"POST /fleets/m/{takes_s * 1e6:.0f} HTTP/1.1\r\n{self._head}".encode() + BODY)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        self._idle.append((reader, writer))
        if head.startswith(b"HTTP/1.1 200"):
            took = asyncio.get_running_loop().time() - at
            self.found.responses.append(took)
            self.found.waits.append(took - takes_s)
        else:
            self.found.refused += 1

    async def finish(self) -> None:
        """All were answered."""
        await asyncio.gather(*self._sent)
        for _, writer in self._idle:
            writer.close()


async def measure(
    port: int, replica_port: int, keys: list[str], options: argparse.Namespace, seed: int
) -> Waits:
    """The first key's waits; beside the other's requests, if both ``keys`` are given."""
    rng = Random(seed)
    mean_s = options.service_ms / 1000
    service = [mean_s] if options.fixed else [rng.expovariate(1 / mean_s) for _ in range(10_000)]
    rate = options.load * options.slots / statistics.mean(service)
    server = await asyncio.start_server(Replica().serve, "127.0.0.1", replica_port)
    clients = [Client(port, key) for key in keys]
    async with server:
        sending = [
            client.send(rate * times, options.seconds, service, Random(seed + times))
            for client, times in zip(clients, (1, TIMES), strict=False)
        ]
        await asyncio.gather(*sending)
        for client in clients:
            await client.finish()
    return clients[0].found


def run(tree: Path, both: bool, options: argparse.Namespace, seed: int) -> Waits:
    """Behind a proxy of its own."""
    proxy_cpu, own_cpu = two_cpus()
    if own_cpu is not None:
        os.sched_setaffinity(0, {own_cpu})
    port, replica_port = free_ports(2)
    keys = [new_key(), new_key()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, key in zip(("first", "other"), keys, strict=True):
            (folder / file).write_text(key)
        (folder / "fleets.yaml").write_text(FLEETS.format(slots=options.slots, port=replica_port))
        command = ["env", "-C", str(tree), sys.executable, "-m", "routing"]
        command += ["--fleets", f"{folder}/fleets.yaml", "--workers", str(options.workers)]
        command += ["--listen", f"127.0.0.1:{port}", "--admin", "none", "--min-drain-seconds", "0"]
        command += ["--log-level", "error"]
        with running(command, port, proxy_cpu, log=folder / "log", limit_s=300):
            return asyncio.run(measure(port, replica_port, keys[: 1 + both], options, seed))


def percentiles(values: list[float]) -> tuple[float, float]:
    """p50 and p99, in milliseconds."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each run")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is run")
    parser.add_argument("--slots", type=int, default=8, help="max_concurrency of the replica")
    parser.add_argument("--service-ms", type=float, default=100, help="mean time of a request at the replica")
    parser.add_argument("--fixed", action="store_true", help="every request takes the same time")
    parser.add_argument("--load", type=float, default=0.15, help="of the first key: a part of the slots")
    parser.add_argument("--workers", type=int, default=2, help="of the proxy")
    parser.add_argument("--tree", type=Path, help="another checkout")
    options = parser.parse_args()
    here = Path(__file__).parents[2]
    trees = {"this": here} | ({str(options.tree): options.tree.resolve()} if options.tree else {})
    python = f"Python {platform.python_version()}"
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, {python}, load {os.getloadavg()[0]:.1f}")
    found = {(tree, both): Waits() for tree in trees for both in (False, True)}
    for number in range(options.rounds):
        for (tree, both), waits in found.items():
            what = "beside the other" if both else "alone"
            print(f"round {number + 1}: {tree}, {what}", file=sys.stderr, flush=True)
            waits.add(run(trees[tree], both, options, number))
    print(f"{'ms':40}{'response p50':>13}{'p99':>8}{'÷ alone':>9}{'wait p50':>10}{'p99':>8}{'refused':>9}")
    for (tree, both), waits in found.items():
        (p50, p99), alone = percentiles(waits.responses), percentiles(found[tree, False].responses)[1]
        refused = waits.refused / (len(waits.responses) + waits.refused)
        name = f"{tree[-20:]}, {f'{TIMES} times as many beside' if both else 'alone'}"
        print(f"{name:40}{p50:13.1f}{p99:8.1f}{p99 / alone:9.2f}", end="")
        print("{:10.1f}{:8.1f}".format(*percentiles(waits.waits)), f"{refused:8.1%}")


if __name__ == "__main__":
    main()
