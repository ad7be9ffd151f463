"""A fleet whose replicas say nothing by themselves: a test takes each attempt as it comes, and answers it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from routing.contract.policy import Policy, Retries, Timeouts
from routing.contract.telemetry import FleetCounters
from tests.routing.proxy.rig import LIMIT_S, Replica, ReplicaConnection, Rig, Seen, reset

LATE_S = 0.1
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PATH = b"/fleets/f/v1/chat/completions"
COMMENT = b": ping\n\n"


def event(**delta: str) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


ROLE = event(role="assistant", content="")
END = (
    b'data: {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], '
    b'"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}\n\ndata: [DONE]\n\n'
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def request(stream: bool = True, path: bytes = PATH, **fields: Any) -> bytes:
    said = {"model": "f", "messages": [{"role": "user", "content": "x"}], **fields}
    body = json.dumps({**said, "stream": True} if stream else said).encode()
    return b"POST %b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)


class Asked:
    """One attempt: a request that has come to a replica."""

    def __init__(self, replica: Replica, connection: ReplicaConnection, seen: Seen) -> None:
        self.replica = replica
        self.connection = connection
        self.seen = seen

    @property
    def name(self) -> bytes:
        return self.replica.name.encode()

    @property
    def given_up(self) -> bool:
        return self.connection.closed

    def write(self, data: bytes) -> None:
        self.connection.transport.write(data)

    def begin(self, *events: bytes) -> None:
        self.write(HEAD + b"".join(map(chunk, events)))

    def send(self, *events: bytes) -> None:
        self.write(b"".join(map(chunk, events)))

    def end(self) -> None:
        self.write(chunk(END) + b"0\r\n\r\n")

    def answer(self, text: str) -> None:
        """All of a stream."""
        self.begin(ROLE, event(content=text))
        self.end()

    def whole(self, status: str = "200 OK", body: bytes = b"{}", fields: bytes = b"") -> None:
        """A response that is no stream."""
        length = b"Content-Length: %d\r\n" % len(body)
        self.write(b"HTTP/1.1 %b\r\n%b%b\r\n%b" % (status.encode(), length, fields, body))

    def lose(self) -> None:
        reset(self.connection.transport)


class SilentFleet:
    """``asked()``: the next attempt, at whichever replica."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._asked: asyncio.Queue[Asked] = asyncio.Queue()
        self.replicas: list[Replica] = []

    async def start(self, count: int = 3, protocol: str = "openai", **policy: Any) -> SilentFleet:
        self.replicas = [await self._rig.replica() for _ in range(count)]
        for one in self.replicas:
            one.script = self._script_of(one)
        self.follow(protocol, **policy)
        return self

    def follow(self, protocol: str = "openai", **policy: Any) -> None:
        values: dict[str, Any] = {
            "timeouts": Timeouts(connect_s=LIMIT_S),
            "retries": Retries(budget_percent=100),
            "first_token_limit_s": LATE_S,
            **policy,
        }
        policy_ = Policy(strategy="round_robin", slow_start_s=0, **values)
        self._rig.fleet(*self.replicas, protocol=protocol, policy=policy_)  # type: ignore[arg-type]

    def _script_of(self, replica: Replica) -> Any:
        async def script(connection: ReplicaConnection, seen: Seen) -> None:
            self._asked.put_nowait(Asked(replica, connection, seen))

        return script

    async def asked(self) -> Asked:
        async with asyncio.timeout(LIMIT_S):
            return await self._asked.get()

    @property
    def asked_more(self) -> bool:
        """Whether there is an attempt that the test has not taken."""
        return not self._asked.empty()

    @property
    def counters(self) -> FleetCounters:
        return self._rig.table.fleets["f"].counters

    def replica(self, one: Asked) -> Any:
        """As the pool has it."""
        (found,) = (each for each in self._rig.table.fleets["f"].replicas if each.name == one.replica.name)
        return found
