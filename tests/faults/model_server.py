"""A model server for the fault bench: a process to be killed or stopped, which notes what it executes.

``python -m tests.faults.model_server PORT FILE``: each request that it has received as a whole is a line in
the file, with the client's id for it, before it is worked on.
"""

import asyncio
import os
import sys

TAKES_S = 0.01
EVENTS = {b"stream": (8, 0.04), b"long": (25, 0.4)}
"""Of each kind of stream: how many events, and the seconds before each."""
BODY = b'{"answer": "%b"}' % (b"x" * 26)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"data: {}\n\n"


def field(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        known, _, value = line.partition(b":")
        if known.strip().lower() == name:
            return value.strip()
    return b""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, file: int) -> None:
    """One connection, request after request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(field(head, b"content-length") or 0))
            os.write(file, field(head, b"x-fault-id") + b"\n")
            if events := EVENTS.get(field(head, b"x-fault-kind")):
                writer.write(STREAM)
                for _ in range(events[0]):
                    await asyncio.sleep(events[1])
                    writer.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
            else:
                await asyncio.sleep(TAKES_S)
                writer.write(ANSWER)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def main(port: int, path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    server = await asyncio.start_server(lambda r, w: serve(r, w, file), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
