"""Byte-level cases of requests: what a client sends, and what must come of it.

Sections A to D of the catalogue that the proxy is built to (request line, fields, framing, forwarding
duties); the RFC clause of each is the rule, the row only a sample of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.proxy.rig import Seen

H = b"Host: a.test\r\n"
CH = b"POST /p HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n"
N = b"GET /smuggled HTTP/1.1\r\n" + H + b"\r\n"


@dataclass
class Case:
    id: str
    sent: bytes
    statuses: tuple[int, ...]
    """Of the final answers, in order."""
    closes: bool = False
    """Whether the proxy must end the connection; otherwise it must serve another request."""
    bodies: tuple[bytes, ...] | None = None
    """Of the requests that the replica saw; ``None``: as many empty ones as there are 200s."""
    check: Callable[[list[Seen]], object] | None = None


def refused(id: str, sent: bytes, status: int = 400) -> Case:
    return Case(id, sent, (status,), closes=True, bodies=())


def bad_chunk(id: str, chunks: bytes) -> Case:
    return refused(id, CH + chunks)


def get(extra: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\n" + H + extra + b"\r\n"


def post(extra: bytes, body: bytes = b"hello") -> bytes:
    return b"POST /p HTTP/1.1\r\n" + H + extra + b"\r\n" + body


def line_is(line: bytes) -> Callable[[list[Seen]], object]:
    return lambda seen: seen[0].line == line


def has(name: bytes, *values: bytes) -> Callable[[list[Seen]], object]:
    return lambda seen: seen[0].get(name) == list(values)


def lacks(*names: bytes) -> Callable[[list[Seen]], object]:
    return lambda seen: not [name for name, _ in seen[0].fields if name in names]


def both(*checks: Callable[[list[Seen]], object]) -> Callable[[list[Seen]], object]:
    return lambda seen: all(check(seen) for check in checks)


REQUEST_LINE = [
    Case("A01", get(b""), (200,)),
    Case("A02", b"\r\n" + get(b""), (200,)),
    refused("A03 version 0.9", b"GET /\r\n\r\n"),
    refused("A04", b"GET / HTTP/2.0\r\n" + H + b"\r\n", 505),
    refused("A05", b"GET / HTTP/9.9\r\n" + H + b"\r\n", 505),
    refused("A07", b"GET  / HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A08", b"GET /a b HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A10", b"GET /a\x00b HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A10b", b"GET /a\x7fb HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A10c obs-text", b"GET /a\xc3\xa9 HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A11 fragment", b"GET /a#b HTTP/1.1\r\n" + H + b"\r\n"),
    Case(
        "A11b", b"GET http://a.test/x HTTP/1.1\r\n" + H + b"\r\n", (200,), check=line_is(b"GET /x HTTP/1.1")
    ),
    Case(
        "A11c no path",
        b"GET http://a.test?q=1 HTTP/1.1\r\n" + H + b"\r\n",
        (200,),
        check=line_is(b"GET /?q=1 HTTP/1.1"),
    ),
    refused("A11d other scheme", b"GET ftp://a.test/x HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A12", b"GET http://u:p@a.test/x HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A13 authority-form", b"GET a.test:80 HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A13b CONNECT", b"CONNECT a.test:80 HTTP/1.1\r\n" + H + b"\r\n", 405),
    Case("A14", b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n", (200,), bodies=()),
    refused("A15", b"GET * HTTP/1.1\r\n" + H + b"\r\n"),
    refused("A17", b"TRACE / HTTP/1.1\r\n" + H + b"Max-Forwards: 0\r\nCookie: s=1\r\n\r\n", 405),
    Case("A18", b"FOO / HTTP/1.1\r\n" + H + b"\r\n", (200,), check=line_is(b"FOO / HTTP/1.1")),
    Case("A20", b"GET /" + b"a" * 7950 + b" HTTP/1.1\r\n" + H + b"\r\n", (200,)),
    refused("A20b", b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + H + b"\r\n", 414),
    refused("A21 TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
]

FIELDS = [
    refused("B01", b"GET / HTTP/1.1\r\n\r\n"),
    Case("B01b HTTP/1.0 without Host", b"GET / HTTP/1.0\r\n\r\n", (200,), closes=True),
    refused("B02", get(b"Host: b.test\r\n")),
    refused("B02b the same twice", get(H)),
    refused("B02c among others", b"GET / HTTP/1.1\r\nX: 1\r\n" + H + b"Y: 1\r\nHOST: a.test\r\n\r\n"),
    refused("B03", b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    refused("B03b", b"GET / HTTP/1.1\r\nHost: a.test/#@b.test\r\n\r\n"),
    refused("B03c empty", b"GET / HTTP/1.1\r\nHost: \r\n\r\n"),
    Case("B03d IPv6", b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", (200,)),
    refused("B05", get(b"X-A : 1\r\n")),
    refused("B06", b"GET / HTTP/1.1\r\n X-A: 1\r\n" + H + b"\r\n"),
    refused("B07 folded", get(b"X-A: 1\r\n 2\r\n")),
    refused("B08", get(b"X-A: 1\rX-B: 2\r\n")),
    refused("B09", get(b"X-A: a\x00b\r\n")),
    refused("B09b DEL", get(b"X-A: a\x7fb\r\n")),
    refused("B10", b"GET / HTTP/1.1\nHost: a.test\n\n"),
    refused("B11", b"POST / HTTP/1.1\r\n" + H + b"X-A: x\nContent-Length: 5\r\n\r\nhello"),
    refused("B13", get(b"XYZ\r\n")),
    refused("B13b empty name", get(b": 1\r\n")),
    refused("B14", get(b"Fo@[]: 1\r\n")),
    Case(
        "B15",
        post(b"Content_Length: 5\r\nX_Forwarded_For: 6.6.6.6\r\nContent-Length: 0\r\n", b""),
        (200,),
        check=both(lacks(b"content_length", b"x_forwarded_for"), has(b"content-length", b"0")),
    ),
    Case("B16", get(b"X-A: \xc3\xa9\r\n"), (200,), check=has(b"x-a", b"\xc3\xa9")),
    refused("B18", get(b"".join(b"X-%d: 1\r\n" % i for i in range(2000))), 431),
    refused("B18b long", get(b"X: " + b"a" * 70_000 + b"\r\n"), 431),
    Case("B18c many", get(b"".join(b"X-%d: 1\r\n" % i for i in range(100))), (200,)),
    Case(
        "B19", get(b"X-A: 1\r\nX-B: 9\r\nX-A: 2\r\nX-A: 3\r\n"), (200,), check=has(b"x-a", b"1", b"2", b"3")
    ),
]

FRAMING = [
    refused("C01", post(b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + N)),
    refused("C02", post(b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", b"0\r\n\r\n" + N)),
    refused("C04", post(b"Content-Length: 5\r\nContent-Length: 5\r\n")),
    refused("C04b", post(b"Content-Length: 5, 5\r\n")),
    refused("C05 +5", post(b"Content-Length: +5\r\n")),
    refused("C05b", post(b"Content-Length: -5\r\n")),
    refused("C05c", post(b"Content-Length: 0x5\r\n")),
    refused("C05d 5.0", post(b"Content-Length: 5.0\r\n")),
    refused("C05e", post(b"Content-Length: \r\n")),
    refused("C05f", post(b"Content-Length: 5 5\r\n")),
    refused("C06", post(b"Content-Length: 18446744073709551621\r\n")),
    refused("C07", post(b"Transfer-Encoding: identity\r\n", N), 501),
    refused("C08 empty", post(b"Transfer-Encoding:\r\n", N), 501),
    refused("C09", post(b"Transfer-Encoding: gzip, chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), 501),
    refused("C10a", post(b"Transfer-Encoding: ,chunked\r\n", b"0\r\n\r\n" + N), 501),
    refused("C10b xchunked", post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + N), 501),
    refused("C10c", post(b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n" + N), 501),
    refused("C10d", post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n" + N), 501),
    refused("C10e VT", post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n" + N)),
    refused("C10f", post(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + N)),
    refused("C10g", post(b"Transfer-Encoding: ,chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + N)),
    refused("C11 chunked 1.0", b"POST /p HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    bad_chunk("C12a", b"0x5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12b", b"+5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12d", b"0_5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12e", b" 5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12f", b"5 \r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12g", b"G\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12h", b"\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C13 overflow", b"10000000000000005\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C14", b"5\r\nhelloXX0\r\n\r\n" + N),
    bad_chunk("C15", b"5\nhello\n0\n\n"),
    bad_chunk("C16 long extension", b"5;" + b"a" * 4096 + b"\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("C17", b"2;\nxx\r\n4c\r\n0\r\n\r\n" + N),
    bad_chunk("C17b", b"2\r\r;a\r\n02\r\n41\r\n0\r\n\r\n"),
    Case("C18 extensions", CH + b'5;a=1;b="x y"\r\nhello\r\n0;z\r\n\r\n', (200,), bodies=(b"hello",)),
    Case(
        "C19",
        CH + b"5\r\nhello\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\nAuthorization: Bearer evil\r\n\r\n",
        (200,),
        bodies=(b"hello",),
        check=both(lacks(b"x-t", b"authorization"), lambda seen: b"evil" not in seen[0].connection.received),
    ),
    Case(
        "C19b",
        CH + b"5\r\nhello\r\n0\r\nX-T: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
        (200,),
        bodies=(b"hello",),
        check=both(lacks(b"x-t"), has(b"x-forwarded-for", b"127.0.0.1")),
    ),
    bad_chunk("C20 bad trailer", b"5\r\nhello\r\n0\r\nX T: 1\r\n\r\n"),
    Case(
        "C22",
        b"GET /g HTTP/1.1\r\n" + H + b"Content-Length: 40\r\n\r\n" + N.ljust(40, b"x")[:40] + get(b""),
        (200, 200),
        bodies=(N.ljust(40, b"x")[:40], b""),
    ),
    Case("C24", get(b"Connection: close\r\n") + N, (200,), closes=True),
    Case(
        "C25",
        b"".join(b"GET /%d HTTP/1.1\r\n%b\r\n" % (i, H) for i in (1, 2, 3)),
        (200, 200, 200),
        check=lambda seen: [one.line.split()[1] for one in seen] == [b"/1", b"/2", b"/3"],
    ),
    Case("C26 CL then next", post(b"Content-Length: 5\r\n") + get(b""), (200, 200), bodies=(b"hello", b"")),
    Case("C27", CH + b"5\r\nhello\r\n6\r\n world\r\n000\r\n\r\n", (200,), bodies=(b"hello world",)),
    Case("C28 TE in capitals", post(b"TRANSFER-ENCODING: Chunked\r\n", b"0\r\n\r\n"), (200,), bodies=(b"",)),
]

FORWARDING = [
    Case(
        "D01",
        get(b"Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\nX-End: 2\r\n"),
        (200,),
        check=both(lacks(b"x-hop", b"connection"), has(b"x-end", b"2")),
    ),
    Case(
        "D02",
        get(
            b"Connection: X-Forwarded-For, Host, Authorization, X-Forwarded-Proto\r\n"
            b"Authorization: Bearer k\r\n"
        ),
        (200,),
        check=both(
            has(b"x-forwarded-for", b"127.0.0.1"),
            has(b"x-forwarded-proto", b"http"),
            lambda seen: len(seen[0].get(b"host")) == 1 and len(seen[0].get(b"x-request-id")) == 1,
        ),
    ),
    Case(
        "D02b framing is never nominated away",
        post(b"Connection: Content-Length\r\nContent-Length: 5\r\n"),
        (200,),
        bodies=(b"hello",),
        check=has(b"content-length", b"5"),
    ),
    Case(
        "D03",
        get(
            b"Keep-Alive: timeout=5\r\nProxy-Connection: close\r\nTE: gzip\r\nUpgrade: foo\r\n"
            b"Proxy-Authorization: Basic eA==\r\nTrailer: X\r\n"
        ),
        (200,),
        check=lacks(
            b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"proxy-authorization", b"trailer"
        ),
    ),
    Case("D05", get(b"Via: 1.0 fred\r\n"), (200,), check=has(b"via", b"1.0 fred, 1.1 switchyard")),
    Case("D05b none before", get(b""), (200,), check=has(b"via", b"1.1 switchyard")),
    Case(
        "D05c forwarded for",
        get(b"X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"),
        (200,),
        check=both(has(b"x-forwarded-for", b"1.2.3.4, 127.0.0.1"), has(b"x-forwarded-proto", b"http")),
    ),
    Case("D06 request id", get(b"X-Request-Id: abc-1\r\n"), (200,), check=has(b"x-request-id", b"abc-1")),
    Case("D07", b"OPTIONS / HTTP/1.1\r\n" + H + b"Max-Forwards: 0\r\n\r\n", (200,), bodies=()),
    Case(
        "D07b",
        b"OPTIONS / HTTP/1.1\r\n" + H + b"Max-Forwards: 3\r\n\r\n",
        (200,),
        check=has(b"max-forwards", b"2"),
    ),
    refused("D10", post(b"Expect: foo\r\nContent-Length: 5\r\n"), 417),
    Case(
        "D11",
        get(
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        ),
        (200,),
        check=both(has(b"upgrade", b"websocket"), has(b"connection", b"Upgrade")),
    ),
    Case(
        "D12 Upgrade: h2c",
        get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"),
        (200,),
        check=lacks(b"upgrade", b"connection", b"http2-settings"),
    ),
    Case(
        "D13",
        post(b"Connection: Upgrade\r\nUpgrade: foo\r\nContent-Length: 40\r\n", N.ljust(40, b"x")[:40])
        + get(b""),
        (200, 200),
        bodies=(N.ljust(40, b"x")[:40], b""),
    ),
    Case(
        "D14",
        get(b'Connection: close, \r\nX-A: "a, b"\r\n'),
        (200,),
        closes=True,
        check=has(b"x-a", b'"a, b"'),
    ),
]

CASES = REQUEST_LINE + FIELDS + FRAMING + FORWARDING
