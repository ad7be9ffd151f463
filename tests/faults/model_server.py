"""A model server for the fault bench: a process to be killed or stopped, which notes what it executes.

``python -m tests.faults.model_server PORT FILE``: each request that it has received as a whole is a line in
the file, with the client's id for it, before it is worked on. Probes (requests without an id) are not. A
stream has as many events as its request says (``X-Fault-Events``), so that it can last for minutes.
"""

import asyncio
import os
import sys
from typing import NamedTuple

TAKES_S = 0.01
BODY = b'{"choices": [{"message": {"role": "assistant", "content": "%b"}}]}' % (b"x" * 26)
"""Of a chat, which nothing else minds."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
LAST_EVENT = b"data: [DONE]\n\n"
"""Without it the answer is not whole."""


class Stream(NamedTuple):
    """How many events unless the request says, and the seconds before each."""

    events: int
    every_s: float


STREAMS = {b"stream": Stream(8, 0.04), b"long": Stream(25, 0.4)}
"""By the kind that the request names."""


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
            if name := field(head, b"x-fault-id"):
                os.write(file, name + b"\n")
            if kind := STREAMS.get(field(head, b"x-fault-kind")):
                writer.write(STREAM_HEAD)
                for _ in range(int(field(head, b"x-fault-events") or kind.events)):
                    await asyncio.sleep(kind.every_s)
                    if writer.is_closing():
                        return  # its client has left
                    writer.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
                    await writer.drain()
                writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(LAST_EVENT), LAST_EVENT))
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
