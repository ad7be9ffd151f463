"""A fleet of few places, a replica that answers when it is told to, and clients that line up."""

from typing import Any

import msgspec

from routing.contract.policy import Policy
from tests.routing.proxy.rig import OK_ANSWER, Answer, Client, Replica, ReplicaConnection, Rig, Seen, until


def policy(strategy: str = "least_connections", **fields: Any) -> Policy:
    """One place a replica, unless it is said otherwise."""
    given = {"strategy": strategy, "max_concurrency": 1, "slow_start_s": 0, **fields}
    return msgspec.convert(given, Policy)


def ask(number: int, more: bytes = b"") -> bytes:
    return b"GET /%d HTTP/1.1\r\nHost: a.test%b\r\n\r\n" % (number, more)


class Gate:
    """A replica's script: answers when it is told to, and notes whom it serves."""

    def __init__(self, *replicas: Replica) -> None:
        self.serving: list[Seen] = []
        self.served: list[bytes] = []
        """Targets, in the order of their coming."""
        self.most = 0
        for replica in replicas:
            replica.script = self._take

    async def _take(self, connection: ReplicaConnection, seen: Seen) -> None:
        self.serving.append(seen)
        self.served.append(seen.line.split(b" ")[1])
        self.most = max(self.most, len(self.serving))

    def release(self, answer: bytes = OK_ANSWER) -> None:
        """Answer who has been there longest."""
        self.serving.pop(0).connection.transport.write(answer)


async def one(rig: Rig, **fields: Any) -> Gate:
    """One replica with one place."""
    replica = await rig.replica()
    rig.fleet(replica, policy=policy(**fields))
    return Gate(replica)


async def clients(rig: Rig, count: int) -> list[Client]:
    return [await rig.client() for _ in range(count)]


async def lined_up(rig: Rig, client: Client, number: int, more: bytes = b"", waiting: int = 0) -> None:
    """Ask, and see that so many wait then."""
    client.send(ask(number, more))
    line = rig.table.fleets["f"].admission.queue
    await until(lambda: len(line) == waiting)


def code(answer: Answer) -> str:
    return str(msgspec.json.decode(answer.body)["code"])
