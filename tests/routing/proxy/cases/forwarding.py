"""Section D: what a proxy owes both sides (RFC 9110 §5.6.1.2, 7.6, 7.8, 10.1.1, 11.7.2; RFC 9112 §9.6)."""

from dataclasses import replace

from tests.routing.proxy.cases.request import (
    FIVE,
    FORTY,
    TE,
    Case,
    Forwarded,
    H,
    answered_here,
    get,
    line,
    passes,
    post,
    posted,
    refused,
)

GET = Forwarded()
TRACE = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
WEB_SOCKET = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def options(max_forwards: bytes) -> bytes:
    return line(b"OPTIONS / HTTP/1.1", H + b"Max-Forwards:" + max_forwards + b"\r\n")


def cut_out(id: str, fields: bytes, left: bytes = b"") -> Case:
    """Of these fields only those that are left arrive."""
    return passes(id, get(fields), Forwarded(fields=left))


def expecting(id: str, fields: bytes, body: bytes, forwarded: Forwarded) -> Case:
    return replace(passes(id, post(fields, body), forwarded), asks_to_continue=True)


THIS_HOP = [
    cut_out("D01", b"Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nX-End: 2\r\n", b"X-End: 2\r\n"),
    cut_out("D01b any case", b"X-HOP: 1\r\nConnection:x-hOP\r\nX-Hop: 2\r\nX-Hop2: 3\r\n", b"X-Hop2: 3\r\n"),
    cut_out("D01c two fields", b"Connection: A\r\nA: 1\r\nB: 2\r\nconnection: b\r\n"),
    cut_out("D01d of a field that is not there", b"Connection: X-Hop\r\nX: 1\r\n", b"X: 1\r\n"),
    cut_out(
        "D02",
        b"Connection: X-Forwarded-For, Host, Authorization, X-Forwarded-Proto\r\nAuthorization: Bearer k\r\n",
    ),
    cut_out("D02a what the proxy writes", b"Connection: Via, X-Request-Id, x-forwarded-for\r\n"),
    passes(
        "D02b framing is never nominated away", post(b"Connection: Content-Length\r\n" + FIVE), posted(FIVE)
    ),
    passes(
        "D02c nor is a coding",
        post(b"Connection: Transfer-Encoding\r\n" + TE, b"5\r\nhello\r\n0\r\n\r\n"),
        posted(chunked=True),
    ),
    cut_out(
        "D03",
        b"Keep-Alive: timeout=5\r\nProxy-Connection: close\r\nTE: gzip\r\nUpgrade: foo\r\n"
        b"Proxy-Authorization: Basic eA==\r\nTrailer: X\r\n",
    ),
    cut_out("D03b TE", b"Connection: TE\r\nTE: trailers\r\nTest: 1\r\n", b"Test: 1\r\n"),
    cut_out(
        "D03c without white space", b"Keep-Alive:1\r\nTE:\r\nTrailer:\tX\r\nProxy-Connection:keep-alive\r\n"
    ),
    cut_out("D03d twice", b"Trailer: X\r\nX: 1\r\ntrailer: Y\r\nTRAILER: Z\r\n", b"X: 1\r\n"),
    cut_out(
        "D04 names that only begin alike",
        b"TEA: 1\r\nTrailers: 2\r\nUpgrades: 3\r\nKeep-Alive-X: 4\r\nVias: 5\r\nX-Host: 6\r\n",
        b"TEA: 1\r\nTrailers: 2\r\nUpgrades: 3\r\nKeep-Alive-X: 4\r\nVias: 5\r\nX-Host: 6\r\n",
    ),
    Case(
        "D14",
        get(b'Connection: close, \r\nX-A: "a, b"\r\n'),
        (200,),
        True,
        (Forwarded(fields=b'X-A: "a, b"\r\n'),),
    ),
    cut_out("D14b empty", b"Connection:\r\n"),
    cut_out("D14c empty elements", b"Connection: ,, ,X-A\t,\r\nX-A: 1\r\n"),
]

OTHER_HOPS = [
    passes("D05", get(b"Via: 1.0 fred\r\n"), Forwarded(via=b"1.0 fred, 1.1 switchyard")),
    passes("D05b none before", get(), GET),
    passes(
        "D05c forwarded for, from who is no trusted proxy",
        get(b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"),
        GET,
    ),
    passes(
        "D05d two fields",
        get(b"Via: 1.0 fred\r\nX-Forwarded-For: a\r\nVia: 1.1 p.test (x)\r\nX-Forwarded-For: b, c\r\n"),
        Forwarded(via=b"1.0 fred, 1.1 p.test (x), 1.1 switchyard"),
    ),
    # RFC 9110 §7.6.3: the version that the message was received with.
    passes(
        "D05e from 1.0",
        line(b"GET / HTTP/1.0", H + b"Via: 1.1 fred\r\n"),
        Forwarded(via=b"1.1 fred, 1.0 switchyard"),
        closes=True,
    ),
    passes("D06 request id", get(b"X-Request-Id: abc-1\r\n"), Forwarded(request_id=b"abc-1")),
    cut_out("D06b unusable request id", b"X-Request-Id: a b\r\n"),
    passes(
        "D06c two request ids", get(b"X-Request-Id: a\r\nX-Request-Id: b\r\n"), Forwarded(request_id=b"b")
    ),
    passes("D06d trace", get(TRACE), Forwarded(fields=TRACE, traced=True)),
    answered_here("D07", options(b" 0")),
    answered_here("D07a zeros", options(b" 000")),
    passes("D07b", options(b" 3"), Forwarded(b"OPTIONS / HTTP/1.1", hop=b"Max-Forwards: 2\r\n")),
    passes("D07c to 0", options(b" 1"), Forwarded(b"OPTIONS / HTTP/1.1", hop=b"Max-Forwards: 0\r\n")),
    refused("D07d none", options(b"")),
    refused("D07e -1", options(b" -1")),
    refused("D07f 1.5", options(b" 1.5")),
    refused("D07g twice", line(b"OPTIONS / HTTP/1.1", H + b"Max-Forwards: 0\r\nMax-Forwards: 5\r\n")),
    # RFC 9110 §7.6.2: of other methods it may be ignored.
    passes("D07h of GET", get(b"Max-Forwards: 0\r\n"), Forwarded(fields=b"Max-Forwards: 0\r\n")),
]

EXPECTATIONS = [
    expecting("D08", b"Expect: 100-continue\r\n" + FIVE, b"hello", posted(FIVE)),
    expecting(
        "D08b chunks", b"Expect: 100-Continue\r\n" + TE, b"5\r\nhello\r\n0\r\n\r\n", posted(chunked=True)
    ),
    expecting(
        "D08c twice", b"Expect: 100-continue\r\nexpect:100-CONTINUE\r\n" + FIVE, b"hello", posted(FIVE)
    ),
    # RFC 9110 §10.1.1: nothing is waited for.
    passes("D08d no body", get(b"Expect: 100-continue\r\n"), GET),
    passes(
        "D08e length 0",
        post(b"Expect: 100-continue\r\nContent-Length: 0\r\n", b""),
        posted(b"Content-Length: 0\r\n", b""),
    ),
    passes(
        "D08f 1.0",
        line(b"POST /p HTTP/1.0", H + b"Expect: 100-continue\r\n" + FIVE) + b"hello",
        Forwarded(b"POST /p HTTP/1.1", FIVE, b"hello", via=b"1.0 switchyard"),
        closes=True,
    ),
    refused("D08g too large", post(b"Expect: 100-continue\r\nContent-Length: 67108865\r\n", b""), 413),
    refused("D10", post(b"Expect: foo\r\n" + FIVE), 417),
    refused("D10b more than it", post(b"Expect: 100-continue, foo\r\n" + FIVE), 417),
    refused("D10c with a value", post(b"Expect: 100-continue=1\r\n" + FIVE), 417),
]

UPGRADES = [
    passes(
        "D11",
        get(b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + WEB_SOCKET),
        Forwarded(fields=WEB_SOCKET, hop=b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
    ),
    cut_out("D11b without Connection", b"Upgrade: websocket\r\n" + WEB_SOCKET, WEB_SOCKET),
    passes(
        "D11c 1.0",
        line(b"GET / HTTP/1.0", H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"),
        Forwarded(via=b"1.0 switchyard"),
        closes=True,
    ),
    cut_out("D12 h2c", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"),
    cut_out("D12b one of several", b"Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n"),
    passes(
        "D13",
        post(b"Connection: Upgrade\r\nUpgrade: foo\r\nContent-Length: 40\r\n", FORTY) + get(),
        posted(b"Content-Length: 40\r\n", FORTY),
        GET,
    ),
    passes(
        "D13b WebSocket with a body",
        line(b"GET /p HTTP/1.1", H + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + TE)
        + b"28\r\n"
        + FORTY
        + b"\r\n0\r\n\r\n"
        + get(),
        Forwarded(b"GET /p HTTP/1.1", b"", FORTY, chunked=True),
        GET,
    ),
]

FORWARDING = THIS_HOP + OTHER_HOPS + EXPECTATIONS + UPGRADES
