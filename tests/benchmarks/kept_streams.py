"""Memory of streams that could be continued: what of them is kept, beside a proxy that keeps nothing.

    python -m tests.benchmarks.kept_streams [--streams 1000] [--tokens 500] [--between 0.2] [--servers 4]

The servers spell at a pace (:mod:`tests.benchmarks.paced_speller`). All streams are open at once, through a
proxy with one worker, first with ``continuation: off`` and then with ``auto``. Printed is how much larger the
worker's resident memory was at its peak than before the streams. Nothing passes or fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.processes import resident_bytes
from tests.proxy_process import until
from tests.servers.running import PROBE, Front, ModelServer

LOOK_EVERY_S = 0.5


class Paced(ModelServer):
    between_s = 0.2

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "tests.benchmarks.paced_speller"),
            *(str(self.port), "0.5", str(self.between_s)),
        ]


async def read(port: int, tokens: int) -> bool:
    """Whether one stream came as a whole."""
    body = json.dumps(
        {
            "model": "tiny-llm",
            "stream": True,
            "max_tokens": tokens,
            "messages": [{"role": "user", "content": "x"}],
        }
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body.encode())
    )
    end = b""
    while piece := await reader.read(65536):
        end = (end + piece)[-64:]
    writer.close()
    return end.endswith(b"0\r\n\r\n") and b"[DONE]" in end


async def peak_of(front: Front, pid: int, streams: int, tokens: int) -> tuple[int, int]:
    """The highest resident memory in bytes, and the number of whole streams."""
    readings = [asyncio.create_task(read(front.proxy.port, tokens)) for _ in range(streams)]
    peak = 0
    while not all(one.done() for one in readings):
        await asyncio.sleep(LOOK_EVERY_S)
        peak = max(peak, resident_bytes(pid))
    return peak, sum(await asyncio.gather(*readings))


def run(folder: Path, servers: list[Paced], continuation: str, options: argparse.Namespace) -> None:
    fleet: dict[str, Any] = {
        "name": "tiny-llm",
        "protocol": "openai",
        "default": True,
        "probe": {**PROBE, "preset": "llama.cpp"},
        "policy": {"continuation": continuation, "slow_start_s": 0},
        "replicas": [{"name": one.name, "url": one.url} for one in servers],
    }
    front = Front(folder, [fleet])
    try:
        for one in servers:
            front.until_health("tiny-llm", one.name, "ready")
        if continuation == "auto":
            until(
                lambda: all(
                    row["continuation"].startswith("continues chats")
                    for row in front.proxy.replicas("tiny-llm").values()
                ),
                "all trials have passed",
            )
        (pid,) = front.proxy.workers()
        before = resident_bytes(pid)
        peak, whole = asyncio.run(peak_of(front, pid, options.streams, options.tokens))
        told = f"{whole} of {options.streams} streams whole"
        print(f"{continuation}: {(peak - before) / 2**20:.1f} MiB more at the peak, {told}", flush=True)
    finally:
        front.proxy.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--between", type=float, default=0.2, help="seconds between two tokens of a stream")
    parser.add_argument("--servers", type=int, default=4)
    options = parser.parse_args()
    Paced.between_s = options.between
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as name:
        folder = Path(name)
        servers = [Paced(f"s{number}", folder) for number in range(options.servers)]
        try:
            for server in servers:
                server.start()
                server.until_it_says("/health", "200")
            for continuation in ("off", "auto"):
                run(folder, servers, continuation, options)
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
