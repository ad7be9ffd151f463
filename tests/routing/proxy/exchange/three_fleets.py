"""Three fleets behind one proxy, and requests that name them in their own ways."""

import json

from tests.routing.proxy.rig import Answer, Replica, Rig


def request(line: bytes, body: bytes = b"", fields: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return line + b" HTTP/1.1\r\nHost: a.test\r\n" + length + fields + b"\r\n" + body


def chat(model: object, **more: object) -> bytes:
    return request(b"POST /v1/chat/completions", json.dumps({"model": model, **more}).encode())


class Fleets:
    """Three fleets of one replica each; ``tiny`` is the default."""

    def __init__(self, rig: Rig, tiny: Replica, big: Replica, digits: Replica) -> None:
        self.rig, self.tiny, self.big, self.digits = rig, tiny, big, digits


async def fleets(rig: Rig, default: bool = True) -> Fleets:
    tiny, big, digits = [await rig.replica(name) for name in ("t1", "b1", "d1")]
    rig.fleet(tiny, name="tiny", protocol="openai", aliases=("chat", "small model"), default=default)
    rig.fleet(big, name="big", protocol="openai", served_model="org/Big-8B", default=False)
    rig.fleet(digits, name="digits", protocol="open-inference", aliases=("numbers",), default=False)
    return Fleets(rig, tiny, big, digits)


def said_by(answer: Answer) -> bytes:
    assert answer.status == 200, answer
    return answer.get(b"x-switchyard-replica")[0]


def to(host: bytes, line: bytes, body: bytes = b"", fields: bytes = b"") -> bytes:
    return request(line, body, fields).replace(b"Host: a.test", b"Host: " + host)


def chunked(body: bytes) -> bytes:
    head = request(b"POST /v1/completions", b"", b"Transfer-Encoding: chunked\r\n")
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
