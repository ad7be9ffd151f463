"""Memory allocator: large buffers are mappings, also after the first one was freed."""

import ctypes
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.proxy.limits.bodies import MIB, chat, post

SCRIPT = """
import sys
from routing.worker.allocator import map_large_buffers

def heap():
    return [line.split()[0] for line in open("/proc/self/maps") if line.endswith("[heap]\\n")]

if "set" in sys.argv:
    assert map_large_buffers()
bytearray(16 << 20)  # freed at once
before = heap()
large = bytearray(8 << 20)
print(heap() == before)
"""

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt") or not Path("/proc/self/maps").exists(),
    reason="another C library, or system",
)


@pytest.mark.parametrize(("arguments", "mapped"), [(["set"], "True"), ([], "False")])
def test_a_large_buffer_after_another(arguments: list[str], mapped: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == mapped


def heap_bytes(worker: int) -> int:
    found = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[heap\]$", Path(f"/proc/{worker}/maps").read_text(), re.M)
    assert found is not None
    return int(found[2], 16) - int(found[1], 16)


def resident_bytes(worker: int) -> int:
    pages = Path(f"/proc/{worker}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_large_bodies_of_a_worker(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    """The second one, while it comes, is not in the heap."""
    fleets = fleet_file(tmp_path / "fleets.yaml", replicas[:1], name="f", protocol="openai")
    running = proxy("--fleets", str(fleets), "--workers", "1").ready()
    [worker] = running.workers()
    resident = resident_bytes(worker)
    client = running.client()
    client.request("POST", "/v1/completions", body=chat(8 * MIB))
    assert client.getresponse().status == 200
    client.close()
    until(lambda: resident_bytes(worker) < resident + 4 * MIB, "the first body is gone")
    heap = heap_bytes(worker)
    with socket.create_connection(("127.0.0.1", running.port)) as half:
        half.sendall(post(8 * MIB)[:-MIB])
        until(lambda: resident_bytes(worker) > resident + 6 * MIB, "most of the body is there")
        assert heap_bytes(worker) < heap + 4 * MIB
