"""Fleets on one device, real processes: without leases a burst kills the model server, with them it lives."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.proxy_process import LIMIT_S, Proxy, until
from tests.routing.master.gpu_server import KILLED_BY_OOM

MIB = 1 << 20
MEMORY = 160 * MIB
HEADROOM_PERCENT = 10
LENT = 84 * MIB
"""160 MiB less 10 % and the weights."""


class Model(NamedTuple):
    weights: int
    request: int
    seconds: float


MODELS = {
    "chat": Model(40 * MIB, 16 * MIB, 0.05),
    "embed": Model(19 * MIB, 6 * MIB, 0.03),
    "large": Model(1 * MIB, 80 * MIB, 0.01),
}


class GpuServer:
    """``gpu_server.py`` in a process of its own."""

    def __init__(self) -> None:
        models = [f"{name}={','.join(map(str, model))}" for name, model in MODELS.items()]
        command = [sys.executable, str(Path(__file__).with_name("gpu_server.py")), str(MEMORY), *models]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def gpu_server() -> Iterator[Callable[[], GpuServer]]:
    started: list[GpuServer] = []

    def start() -> GpuServer:
        started.append(GpuServer())
        return started[-1]

    yield start
    for one in started:
        one.stop()


def fleet_file(path: Path, server: GpuServer, leases: bool) -> Path:
    """Both fleets on the one server. ``leases``: the file says what they take."""
    fleets = []
    for name, model in MODELS.items():
        replica = {"name": "a", "url": f"http://127.0.0.1:{server.port}/{name}"}
        if leases:
            replica |= {
                "accelerators": ["n1/gpu0"],
                "memory_bytes": model.weights,
                "request_bytes": model.request,
            }
        policy = {"slow_start_s": 0, "queue": {"size": 1000, "timeout_s": LIMIT_S}}
        fleets.append({"name": name, "protocol": "generic", "policy": policy, "replicas": [replica]})
    device = {"name": "n1/gpu0", "memory_bytes": MEMORY, "headroom_percent": HEADROOM_PERCENT}
    path.write_text(json.dumps({"accelerators": [device] if leases else [], "fleets": fleets}))
    return path


async def ask(port: int, fleet: str) -> tuple[int, bytes]:
    """One request on a connection of its own; status 0: the proxy was gone."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: t\r\nX-Switchyard-Fleet: %b\r\n\r\n" % fleet.encode())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return int(head.split(b" ")[1]), await reader.readexactly(length)
        finally:
            writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return 0, b""


async def burst(port: int, each: int) -> list[tuple[int, bytes]]:
    """So many requests to each of two fleets, all at once."""
    async with asyncio.timeout(LIMIT_S):
        return await asyncio.gather(*(ask(port, fleet) for fleet in ("chat", "embed") for _ in range(each)))


def device(proxy: Proxy) -> dict[str, int]:
    [row] = proxy.status()["accelerators"]
    return row


async def test_a_burst_kills_a_server_without_leases_and_none_with_them(
    tmp_path: Path, proxy: Callable[..., Proxy], gpu_server: Callable[[], GpuServer]
) -> None:
    mortal, spared = gpu_server(), gpu_server()
    unleased = proxy(
        "--workers", "2", "--fleets", str(fleet_file(tmp_path / "unleased.yaml", mortal, leases=False))
    )
    leased = proxy(
        "--workers", "2", "--fleets", str(fleet_file(tmp_path / "leased.yaml", spared, leases=True))
    )
    unleased.ready()
    leased.ready()

    answers = await burst(unleased.port, 30)
    lost = Counter(status for status, _ in answers)
    assert mortal.process.wait(LIMIT_S) == KILLED_BY_OOM
    assert lost[502] > 20, lost

    answers = await burst(leased.port, 30)
    assert Counter(status for status, _ in answers) == {200: 60}
    assert spared.process.poll() is None
    peak = max(json.loads(body)["peak"] for _, body in answers)
    # Much of the device was in use, and at no time more than is lent.
    assert LENT / 2 < peak <= LENT
    print(
        f"without leases: {dict(lost)}; with leases: 60 of 60, at most {peak / MIB:g} of {LENT / MIB:g} MiB"
    )
    until(lambda: device(leased)["lease_waits"] > 0, "waits are reported")
    assert device(leased)["leasable_bytes"] == LENT
    assert (
        'switchyard_accelerator_leasable_bytes{accelerator="n1/gpu0"} 88080384' in leased.admin("/metrics")[1]
    )

    # What a worker had leased that is killed is not lost: a request fits that needs nearly all there is.
    worker = leased.workers()[0]
    asking = [asyncio.create_task(ask(leased.port, "chat")) for _ in range(60)]
    await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    os.kill(worker, signal.SIGKILL)
    statuses = Counter([(await one)[0] for one in asking])
    assert statuses.keys() == {200, 0}
    assert (await ask(leased.port, "large"))[0] == 200
    assert spared.process.poll() is None
    until(lambda: device(leased)["leased_bytes"] == 0, "all was given back")
