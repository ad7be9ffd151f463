"""Responders: an HTTP server on many loopback addresses and ports at once, each as one replica's (uvloop).

It answers every request with 200 and an empty JSON object, and keeps connections. Once a second it prints
``connections requests`` since its start, so that a benchmark knows what really arrived. With ``--churn`` one
in fifty answers 503, each for FAILS_S, then the next one.
"""

import argparse
import asyncio
import time
from typing import cast

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


BAD = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
FAILS_S = 30
ONE_IN = 50


class Counts:
    churns = False
    connections = 0
    requests = 0


class Responder(asyncio.Protocol):
    """Answers each request head; probes have no body."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's classes
        self._number = hash(self._transport.get_extra_info("sockname"))
        Counts.connections += 1

    def data_received(self, data: bytes) -> None:
        heads = data.count(b"\r\n\r\n")
        Counts.requests += heads
        fails = Counts.churns and (int(time.monotonic() / FAILS_S) + self._number) % ONE_IN == 0
        self._transport.write((BAD if fails else ANSWER) * heads)


async def serve(addresses: list[str], ports: range) -> None:
    loop = asyncio.get_running_loop()
    for address in addresses:
        for port in ports:
            await loop.create_server(Responder, address, port, backlog=16)
    print("listening", flush=True)
    while True:
        await asyncio.sleep(1)
        print(Counts.connections, Counts.requests, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--addresses", required=True, help="127.0.0.1,127.0.0.2,…")
    parser.add_argument("--first-port", type=int, required=True)
    parser.add_argument("--ports", type=int, required=True)
    parser.add_argument("--churn", action="store_true")
    options = parser.parse_args()
    Counts.churns = options.churn
    ports = range(options.first_port, options.first_port + options.ports)
    uvloop.run(serve(options.addresses.split(","), ports))


if __name__ == "__main__":
    main()
