"""Request bodies, and replicas that take none, for tests of the memory for them."""

import json
import socket

from routing.contract.body_settings import BodySettings
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Client, Replica, ReplicaConnection, Rig, StartRig

MIB = 1 << 20


def post(size: int, path: bytes = b"/v1/completions") -> bytes:
    """Less than the whole of it."""
    body = chat(size)
    return head(len(body), path) + body


def head(size: int, path: bytes = b"/v1/completions") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % (path, size)


def chat(size: int) -> bytes:
    start, end = b'{"model": "f", "prompt": "', b'"}'
    return start + b"y" * (size - len(start) - len(end)) + end


async def with_memory(start_rig: StartRig, size: int) -> tuple[Rig, Replica]:
    rig = await start_rig(ProxySettings(bodies=BodySettings(memory_bytes=size)))
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    return rig, replica


async def refused(client: Client, limit_s: float = 10.0) -> None:
    answer = await client.answer(limit_s=limit_s)
    assert (answer.status, answer.get(b"retry-after")) == (503, [b"1"])
    assert json.loads(answer.body)["error"]["code"] == "busy"


def deaf(connection: ReplicaConnection, data: bytes) -> None:
    """A replica that reads no more."""
    connection.transport.pause_reading()


def hears(replica: Replica) -> None:
    replica.on_data = None
    for connection in replica.connections:
        connection.transport.resume_reading()


def narrow(connection: ReplicaConnection) -> None:
    """A replica whose kernel takes little."""
    raw = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
