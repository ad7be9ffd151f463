"""Client keys with limits, their requests, and a replica that answers when told to."""

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from routing.contract.table import KeyLimits
from routing.contract.telemetry import KeyCounters
from tests.routing.proxy.rig import (
    OK,
    OK_ANSWER,
    Replica,
    ReplicaConnection,
    Rig,
    Seen,
)

KEY, OTHER = new_key().encode(), new_key().encode()


SALT = new_salt()


HASH, OTHER_HASH = (key_hash(salt_bytes(SALT), key) for key in (KEY, OTHER))


ONE_MINUTE = KeyLimits(id="web", requests_per_minute=2)


THOUSAND = KeyLimits(id="web", tokens_per_minute=1000)


ONE_AT_A_TIME = KeyLimits(id="web", max_concurrency=1)


ONE_BESIDE = KeyLimits(id="web", max_concurrency=2)


def in_force(rig: Rig, limits: KeyLimits, fleets: tuple[str, ...] = ("*",)) -> None:
    """One key with these limits, and one without any."""
    rig.keys(SALT, {HASH: list(fleets), OTHER_HASH: ["*"]}, {HASH: limits})


def request(
    path: bytes = b"/v1/chat/completions",
    body: bytes = b'{"model": "f", "messages": []}',
    *fields: bytes,
    key: bytes = KEY,
    method: bytes = b"POST",
) -> bytes:
    head = (b"Host: a.test", b"Authorization: Bearer " + key, *fields)
    length = (b"Content-Length: %d" % len(body),) if body or method == b"POST" else ()
    return b"\r\n".join((b"%b %b HTTP/1.1" % (method, path), *head, *length)) + b"\r\n\r\n" + body


def get(path: bytes = b"/", *fields: bytes, key: bytes = KEY) -> bytes:
    return request(path, b"", *fields, key=key, method=b"GET")


def counters(rig: Rig) -> KeyCounters:
    (found,) = rig.proxy.key_quotas.report()
    return found


def whole(answer: str) -> bytes:
    return OK + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(answer),
        answer.encode(),
    )


def events(*data: str) -> bytes:
    body = "".join(f"data: {one}\n\n" for one in data).encode()
    return OK + b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class Gate:
    """Has a replica answer when it is opened."""

    def __init__(self, replica: Replica, answer: bytes = OK_ANSWER) -> None:
        self.answer = answer
        self.held: list[ReplicaConnection] = []
        self._is_open = False
        replica.script = self._script

    @property
    def waiting(self) -> int:
        return len(self.held)

    def open(self) -> None:
        self._is_open = True
        for connection in self.held:
            connection.transport.write(self.answer)
        self.held.clear()

    async def _script(self, connection: ReplicaConnection, seen: Seen) -> None:
        if self._is_open:
            connection.transport.write(self.answer)
        else:
            self.held.append(connection)
