"""Scripted replicas that tell one answer, as vLLM or llama.cpp, and break off where they are told."""

from __future__ import annotations

import asyncio
import json
from math import inf
from typing import Any

from msgspec.structs import replace

from routing.balancing.replica.state import Replica as PoolReplica
from routing.contract.policy import Policy, Timeouts
from routing.contract.probe import Probe
from tests.routing.protocols.continuation.streams import Model, request_body
from tests.routing.proxy.rig import LIMIT_S, Client, ReplicaConnection, Rig, Seen, linger_not

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
TOKENS = ["one", " two", " three", "\n\n", "four", " five", " six", " seven"]
USAGE = {"stream_options": {"include_usage": True}}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Part:
    """What one attempt gets, of all attempts of the fleet in their order. It breaks off after so many events
    of the answer (``None``: never), leaving ``partial`` bytes of the next one, in the way ``breaks``:
    ``rst``, ``fin``, ``silent``, ``empty``."""

    def __init__(self, model: Model, number: int) -> None:
        self.model = model
        self.number = number
        self.events: int | None = None
        self.partial = 0
        self.error = b""
        """What it sends as a chunk before it breaks off."""
        self.breaks = "rst"
        self.refuses: bytes = b""
        self.asked: list[dict[str, Any]] = []
        self.told = asyncio.Event()
        """It has sent what it sends before it breaks off."""
        self.may_break = asyncio.Event()
        self.may_break.set()

    async def tell(self, connection: ReplicaConnection, seen: Seen) -> None:
        request = json.loads(seen.body)
        self.asked.append(request)
        write = connection.transport.write
        if self.refuses:
            write(self.refuses)
            return
        stream = self.model.stream(request, f"chatcmpl-{self.number}")
        events = [event + b"\n\n" for event in stream[:-2].split(b"\n\n")]
        write(HEAD)
        for event in events[: self.events]:
            write(chunk(event))
            await asyncio.sleep(0)
        if self.events is None or self.events >= len(events):
            write(b"0\r\n\r\n")
            return
        if self.error:
            write(chunk(self.error))
        if self.partial:
            write(chunk(events[self.events])[: self.partial])
        self.told.set()
        await self.may_break.wait()
        if self.breaks == "empty":
            write(b"0\r\n\r\n")
        elif self.breaks == "fin":
            connection.transport.close()
        elif self.breaks == "rst":
            await asyncio.sleep(0.02)
            linger_not(connection.transport)
            connection.transport.abort()


async def parts(
    rig: Rig, shape: str = "vllm", chat: bool = True, count: int = 2, **policy: Any
) -> list[Part]:
    """What the attempts get, one after the other, at a fleet of so many replicas that continues."""
    replicas = [await rig.replica() for _ in range(count)]
    told = [Part(Model(TOKENS, shape, chat), number) for number in range(2 * count)]
    rest = iter(told)

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        await next(rest).tell(connection, seen)

    for one in replicas:
        one.script = script
    values = {"timeouts": Timeouts(connect_s=LIMIT_S), "continuation": "auto", **policy}
    rig.fleet(
        *replicas,
        protocol="openai",
        probe=Probe(preset=shape),
        policy=Policy(strategy="round_robin", slow_start_s=0, **values),
    )
    for one in in_pool(rig):
        one.continuation.chats = one.continuation.completions = True
        one.continuation.due = inf
    return told


def drain(rig: Rig, *replicas: PoolReplica, move: bool = True) -> None:
    """A newer table, in which these replicas and no others drain."""
    pool = rig.table.fleets["f"]
    old = pool.snapshot
    specs = [
        replace(one.spec, admin_state="draining" if one in replicas else "active", move=move)
        for one in pool.replicas
    ]
    rig.table.apply_snapshot(replace(old, version=old.version + 1, replicas=specs))


def in_pool(rig: Rig) -> list[PoolReplica]:
    return rig.table.fleets["f"].replicas


def request(chat: bool = True, **fields: Any) -> bytes:
    body = request_body(chat, **fields)
    path = b"/v1/chat/completions" if chat else b"/v1/completions"
    return b"POST /fleets/f%b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (
        path,
        len(body),
        body,
    )


def uninterrupted(part: Part, **fields: Any) -> bytes:
    return part.model.stream(json.loads(request_body(part.model.chat, **fields)), "chatcmpl-0")


async def ask(client: Client, chat: bool = True, **fields: Any) -> Any:
    client.send(request(chat, **fields))
    return await client.answer(b"POST")
