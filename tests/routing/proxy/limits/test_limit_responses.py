"""What each limit answers, to the byte. (What is still within it: tests/routing/proxy/cases.)"""

import json
from http import HTTPStatus

import pytest

from routing.contract.policy import Limits as BodyLimits
from routing.contract.policy import Policy
from routing.http.limits import ConnectionLimits
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Rig, StartRig, undated, until

LIMITS = ConnectionLimits(max_target=100, max_head=1000, max_fields=5)
H = b"Host: a.test\r\n"


def answer(status: int, detail: str, code: str, fields: str = "") -> bytes:
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    text = json.dumps(body, separators=(",", ":"))
    kind = f"Content-Type: application/problem+json\r\nContent-Length: {len(text)}\r\n"
    return f"HTTP/1.1 {status} {title}\r\n{kind}{fields}Connection: close\r\n\r\n{text}".encode()


TARGET = answer(414, "the request target is longer than 100 bytes", "target_too_long")
HEAD = answer(431, "the request head is longer than 1000 bytes", "head_too_large")
FIELDS = answer(431, "the request has more than 5 fields", "too_many_fields")
BODY = answer(
    413,
    "the request body is larger than 1000 bytes, the most that is taken here",
    "body_too_large",
    "Via: 1.1 switchyard\r\nX-Request-Id: one\r\n",
)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET /" + b"a" * 100 + b" HTTP/1.1\r\n" + H + b"\r\n", TARGET),
        (b"GET /" + b"a" * 2000, TARGET),
        (b"GET / HTTP/1.1\r\n" + H + b"A: " + b"a" * 1000 + b"\r\n\r\n", HEAD),
        (b"GET / HTTP/1.1\r\n" + H + b"A: " + b"a" * 1000, HEAD),
        (b"GET / HTTP/1.1\r\n" + H + b"A: 1\r\n" * 5 + b"\r\n", FIELDS),
    ],
    ids=["target", "endless target", "head", "endless head", "fields"],
)
async def test_head_over_a_limit(start_rig: StartRig, sent: bytes, said: bytes) -> None:
    rig = await start_rig(ProxySettings(limits=LIMITS))
    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    client.send(sent)
    assert undated(await client.ends()) == said
    assert replica.requests == []


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 1001\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"64\r\n" + bytes(100) + b"\r\n" + b"385\r\n" + bytes(901),
    ],
    ids=["length", "one chunk", "endless chunks"],
)
async def test_body_over_its_limit(rig: Rig, sent: bytes) -> None:
    replica = await rig.replica()
    rig.fleet(replica, policy=Policy(strategy="round_robin", limits=BodyLimits(max_body_bytes=1000)))
    client = await rig.client()
    client.send(b"POST / HTTP/1.1\r\nX-Request-Id: one\r\n" + H + sent)
    assert undated(await client.ends()) == BODY
    await until(lambda: not [one for one in replica.open if one.incomplete])
    assert replica.requests == []
