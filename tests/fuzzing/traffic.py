"""What well-behaved clients send: valid, and by that much of it the proxy's short ways are taken.

Requests as clients' libraries write them, many with one head or with heads that differ in a value or two (as
templates recognise them), and WebSockets with what follows their handshake.
"""

from random import Random

_AGENTS = [b"OpenAI/Python 1.99", b"curl/8.5.0", b"python-httpx/0.28.1", b"\xc3\xa9", b""]
_HEADS = [
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\nUser-Agent: %A\r\n"
    b"Content-Type: application/json\r\nAuthorization: Bearer %K\r\nContent-Length: %L\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nhost: a.test:8080\r\nX-Request-Id: %I\r\ncontent-length: %L\r\n"
    b"traceparent: 00-%T-b7ad6b7169203331-01\r\nuser-agent: %A\r\n\r\n",
    b"PUT /fleets/m/x?y HTTP/1.1\r\nHost: a.test\r\nContent-Length: %L\r\nX-Request-Id: %I\r\nX: %A\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: a.test\r\nUser-Agent: %A\r\nAccept: */*\r\nX-Request-Id: %I\r\n\r\n",
    b"HEAD /a HTTP/1.1\r\nHost: a.test\r\nx-api-key: %K\r\n\r\n",
    b"GET http://a.test:80/a HTTP/1.1\r\nHost: a.test:80\r\nX-A: %A\r\nProxy-Connection: keep-alive\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nX-A: %A\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: %L\r\n\r\n",
    b"GET /a HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n",
]
_KEYS = [b"abc", b"abd", b"sy-one", b"sy-other", b""]
_IDS = [b"1", b"2", b"req-%d" % 10**9, b"a" * 128, b"a" * 129, b"a b", b""]
_TRACES = [b"0af7651916cd43dd8448eb211c80319c", b"%032x" % 1, b"0" * 32, b"0AF7651916CD43DD8448EB211C80319C"]
_LENGTHS = [b"%d"] * 20 + [b"0%d", b"+%d", b"%d, %d", b"%d ", b""]
_WEB_SOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: %C\r\nUpgrade: %U\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
_FRAMES = [b"", b"\x81\x85\x00\x00\x00\x00hello", b"\x89\x80\x00\x00\x00\x00", b"\x00" * 40]


def alike(random: Random) -> bytes:
    """Two to six requests with one head but for its values, of which each is now and then another."""
    head = random.choice(_HEADS)
    values = _values(random)
    sent = b""
    for _ in range(random.randint(2, 6)):
        if random.random() < 0.7:
            drawn = _values(random)
            name = random.choice(sorted(values))
            values[name] = drawn[name]
        sent += _filled(random, head, values)
    return sent


def web_socket(random: Random) -> bytes:
    """A handshake, mostly a good one, and bytes of the tunnel or of one more request."""
    connection = random.choice(
        (b"Upgrade", b"keep-alive, upgrade", b"Upgrade, X-A", b"close, Upgrade", b"X-A")
    )
    upgrade = random.choice((b"websocket", b"WebSocket", b"websocket, h2c", b"h2c"))
    sent = _WEB_SOCKET.replace(b"%C", connection).replace(b"%U", upgrade)
    if random.random() < 0.1:
        sent = sent[:-2] + b"Content-Length: 2\r\n\r\nhi"
    if random.random() < 0.2:
        sent = _filled(random, _HEADS[3], _values(random)) + sent
    return sent + random.choice((*_FRAMES, _filled(random, _HEADS[3], _values(random))))


def _values(random: Random) -> dict[bytes, bytes]:
    return {
        b"%A": random.choice(_AGENTS),
        b"%K": random.choice(_KEYS),
        b"%I": random.choice(_IDS),
        b"%T": random.choice(_TRACES),
        b"%L": random.choice(_LENGTHS),
    }


def _filled(random: Random, head: bytes, values: dict[bytes, bytes]) -> bytes:
    body = random.choice((b"{}", b'{"model":"m"}', b'{"model": "m", "n": 1}', b'{"x":"%b"}' % (b"y" * 200)))
    for name, value in values.items():
        if name == b"%L":
            value = value.replace(b"%d", b"%d" % len(body))
        head = head.replace(name, value)
    if b"chunked" in head:
        half = len(body) // 2
        return head + b"%x\r\n%b\r\n%x;a\r\n%b\r\n0\r\n\r\n" % (
            half,
            body[:half],
            len(body) - half,
            body[half:],
        )
    return head + body if b"content-length" in head.lower() else head
