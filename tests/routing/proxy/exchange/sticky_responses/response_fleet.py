"""A fleet of two model servers that speak OpenAI's Responses API and keep what they make."""

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from routing.contract.policy import Policy
from routing.http.chunked import encode_chunk
from routing.shared.sticky_ids import ReplicaRef
from tests.routing.proxy.rig import OK, Answer, Client, Replica, ReplicaConnection, Rig, Seen

POLICY = Policy(strategy="round_robin", slow_start_s=0)


def ask(line: str, body: object = None, *fields: str) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    sized = (f"Content-Length: {len(data)}",) if body is not None else ()
    return "\r\n".join([f"{line} HTTP/1.1", "Host: a.test", *sized, *fields, "", ""]).encode() + data


def create(model: str = "f", **more: object) -> bytes:
    return ask("POST /v1/responses", {"model": model, "input": "hello", **more})


class Server:
    """Keeps responses in its memory, as model servers do, and knows no others'."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.kept: dict[str, dict[str, Any]] = {}
        self.pieces = 1
        """In how many an event is sent."""
        self.before = b""
        """Said first in a stream."""
        replica.script = self.answer

    async def answer(self, connection: ReplicaConnection, seen: Seen) -> None:
        _, target = seen.line.decode().split(" ")[:2]
        path, *rest = target.partition("?")[0].removeprefix("/v1/").split("/")
        asked = json.loads(seen.body or b"{}")
        if path == "conversations" and not rest:
            self._json(connection, 200, self._keep({"object": "conversation"}, "conv"))
        elif rest[:1] and rest != ["input_tokens"]:
            known = self.kept.get(rest[0])
            self._json(connection, 200 if known else 404, known or {"error": {"message": "not found"}})
        elif (before := asked.get("previous_response_id")) and before not in self.kept:
            self._json(connection, 404, {"error": {"message": f"{before} not found"}})
        else:
            made = {
                "object": "response",
                "tools": [{"id": "tool_1"}],
                "conversation": asked.get("conversation"),
            }
            if asked.get("store", True):
                self._keep(made, "resp")
            await (self._stream(connection, made) if asked.get("stream") else self._whole(connection, made))

    def _keep(self, made: dict[str, Any], kind: str) -> dict[str, Any]:
        made["id"] = f"{kind}_{self.replica.name}_{len(self.kept)}"
        self.kept[made["id"]] = made
        return made

    async def _whole(self, connection: ReplicaConnection, made: dict[str, Any]) -> None:
        self._json(connection, 200, {"id": "resp_not_kept", **made})

    def _json(self, connection: ReplicaConnection, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.transport.write(head.encode() + data)

    async def _stream(self, connection: ReplicaConnection, made: dict[str, Any]) -> None:
        fields = b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.transport.write(OK + fields + (encode_chunk(self.before) if self.before else b""))
        first = json.dumps({"type": "response.created", "response": made})
        event = f"event: response.created\ndata: {first}\n\n".encode()
        size = -(-len(event) // self.pieces)
        for at in range(0, len(event), size):
            await asyncio.sleep(0.001)
            connection.transport.write(encode_chunk(event[at : at + size]))
        rest = b'event: response.completed\ndata: {"type":"response.completed"}\n\n'
        connection.transport.write(encode_chunk(rest) + b"0\r\n\r\n")


class Fleet:
    """Two replicas that keep what they make, asked in turns."""

    def __init__(self, rig: Rig, client: Client, a: Server, b: Server) -> None:
        self.rig, self.client, self.a, self.b = rig, client, a, b
        self.table()

    def table(self, *replicas: Replica, **options: Any) -> None:
        chosen = replicas or (self.a.replica, self.b.replica)
        self.rig.fleet(*chosen, **{"protocol": "openai", "policy": POLICY, **options})

    def state(self, name: str, **fields: Any) -> None:
        """Give one replica another state in the table."""
        snapshot = self.rig.table.fleets["f"].snapshot
        self.rig._version += 1
        replicas = [replace(spec, **fields) if spec.name == name else spec for spec in snapshot.replicas]
        self.rig.table.apply_snapshot(replace(snapshot, version=self.rig._version, replicas=replicas))

    async def make(self, **more: object) -> tuple[str, str]:
        """A response, and the replica that made it."""
        answer = await self.client.ask(create(**more))
        assert answer.status == 200, answer
        return json.loads(answer.body)["id"], by(answer)

    async def turns(self, name: str, count: int = 4) -> list[tuple[int, str]]:
        answers = [await self.client.ask(create(previous_response_id=name)) for _ in range(count)]
        return [(answer.status, by(answer)) for answer in answers]


def by(answer: Answer) -> str:
    return b"".join(answer.get(b"x-switchyard-replica")).decode()


def error(answer: Answer) -> tuple[int, str, str]:
    said = json.loads(answer.body)["error"]
    return answer.status, said["code"], said["message"]


class Elsewhere:
    """Whom the worker can ask."""

    def __init__(self, rig: Rig) -> None:
        self.places: dict[str, ReplicaRef] = {}
        self.shared: dict[str, ReplicaRef] = {}
        self.asked: list[str] = []
        self.cancelled = 0
        self.answers = asyncio.Event()
        self.answers.set()
        rig.proxy.sticky_registry.join(self.shared.__setitem__, self.find)

    async def find(self, name: str) -> ReplicaRef | None:
        self.asked.append(name)
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
        return self.places.get(name)
