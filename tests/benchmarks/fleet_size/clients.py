"""Clients: requests to a proxy at a steady rate, each to the next of so many fleets, over kept connections.

At its end it prints ``answered refused``: how many responses were 200, and how many were not.
"""

import argparse
import asyncio
import signal
import time

CONNECTIONS = 16
BODY = '{"model": "fleet-%d", "messages": [{"role": "user", "content": "x"}]}'


class Counts:
    answered = 0
    refused = 0


def request(fleet: int) -> bytes:
    body = BODY % fleet
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: p", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


async def client(port: int, first: int, fleets: int, every_s: float) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due, fleet = time.monotonic(), first
    while True:
        writer.write(request(fleet % fleets))
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        await reader.readexactly(length)
        if head.startswith(b"HTTP/1.1 200"):
            Counts.answered += 1
        else:
            Counts.refused += 1
        fleet += CONNECTIONS
        due = max(due + every_s, time.monotonic())
        await asyncio.sleep(due - time.monotonic())


async def run(port: int, fleets: int, per_s: float) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    every_s = CONNECTIONS / per_s
    tasks = [asyncio.create_task(client(port, n, fleets, every_s)) for n in range(CONNECTIONS)]
    await stop.wait()
    for task in tasks:
        task.cancel()
    print(Counts.answered, Counts.refused, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fleets", type=int, required=True)
    parser.add_argument("--per-second", type=float, required=True)
    options = parser.parse_args()
    asyncio.run(run(options.port, options.fleets, options.per_second))


if __name__ == "__main__":
    main()
