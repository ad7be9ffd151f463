"""Random requests and responses: near to valid, since noise alone is refused by the first line's grammar.

Three layers, each of which may be skipped: a message put together from parts that are valid, unusual or
wrong, or what a good client sends (:mod:`tests.fuzzing.traffic`); several messages behind one another; bytes
of the whole changed. All is drawn from one ``random.Random``, so that a seed gives the same bytes again.
"""

import re
from random import Random

from tests.fuzzing import traffic

METHODS = [b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"FOO", b"get", b"M-SEARCH"]
TARGETS = [
    *(b"/", b"/a", b"/a?b=c", b"/a%20b", b"//a", b"/a/../b", b"/?", b"/a;b", b"*", b"a", b""),
    *(b"http://a.test/x", b"http://a.test", b"http://a.test?q", b"HTTP://b.test:80/y", b"https://a.test/"),
    *(b"http://u@a.test/", b"a.test:80", b"/a b", b"/\x00", b"/\xc3\xa9", b"/a#b", b"/" + b"a" * 300),
    *(b"/v1/models", b"/fleets/m/x", b"/fleets/nobody/x", b"/v2/models/m/infer", b"/v1/chat/completions"),
]
VERSIONS = [b"HTTP/1.1"] * 12 + [b"HTTP/1.0"] * 3 + [b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b""]
LINE_ENDS = [b"\r\n"] * 150 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\r\n "]
NAMES = [
    *(b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Upgrade", b"TE", b"Trailer"),
    *(b"Expect", b"Via", b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-Request-Id", b"Keep-Alive"),
    *(b"Max-Forwards", b"Authorization", b"x-api-key", b"Proxy-Connection", b"Proxy-Authorization"),
    *(
        b"X-Switchyard-Fleet",
        b"x-switchyard-replica",
        b"X-Switchyard-Work",
        b"Content-Type",
        b"Accept",
        b"Cookie",
        b"X-A",
        b"X-B",
    ),
    *(b"Content_Length", b"Transfer_Encoding", b"content-length", b"TRANSFER-ENCODING", b"hOST", b"X-A "),
    *(b" X-A", b"", b"X\x00A", b"X(A", b"Content-Encoding", b"Retry-After", b"Set-Cookie", b"Date", b"Link"),
    *(b"Forwarded", b"X-Forwarded-Host", b"X-Real-IP", b"True-Client-IP"),
]
VALUES = [
    *(
        b"",
        b"1",
        b"a",
        b"a, b",
        b"a,,b",
        b" a ",
        b"\ta\t",
        b"a\tb",
        b"\xc3\xa9",
        b"a\x00b",
        b"a\x7fb",
        b"a\x0bb",
    ),
    *(b"close", b"keep-alive", b"Keep-Alive, X-A", b"close, X-B", b"Content-Length", b"Transfer-Encoding"),
    *(b"X-Forwarded-For, Host", b"upgrade", b"websocket", b"h2c", b"chunked", b"Chunked", b"gzip, chunked"),
    *(b"chunked, chunked", b",chunked", b"chunked,", b"identity", b'"chunked"', b"chunked;q=1", b"xchunked"),
    *(b"0", b"2", b"5", b"05", b"+5", b"-5", b"5, 5", b"5 5", b"0x5", b"18446744073709551621", b"9" * 30),
    *(b"a.test", b"b.test:80", b"[::1]:80", b"a b", b"a.test/#@b", b"a:b:c", b"a.test,b.test", b"%41"),
    *(b"100-continue", b"100-Continue", b"foo", b"1.1 switchyard", b"1.0 fred", b"m", b"nobody", b"trailers"),
    *(b"Bearer sy-abc", b"Bearer abc", b"sy-abc", b"10", b"abc-1", b"timeout=5", b"x" * 200),
]
HOSTS = [
    *(b"a.test:80", b"[::1]", b"[::1]:8080", b"", b"a.test:", b"a.test:x", b"a b", b"A.TEST.", b"u@a.test"),
    *(b"a.test/x", b"a%2etest", b"a%zz", b"[::1", b"a.test, b.test", b"a.test:80:80", b"\t a.test \t", b"*"),
]
FIELDS = [
    *(b"X-A: 1", b"Content-Type: text/event-stream", b"Cookie: a=1", b"Accept: */*", b"Via: 1.0 fred"),
    *(b"Connection: keep-alive", b"Connection: X-A", b"Date: x", b"x-b:", b"X-A:\t1 ", b"TE: trailers"),
]
FRAMING = [
    *([b"Content-Length: %d"] * 18),
    *([b"Transfer-Encoding: chunked"] * 12),
    *(b"Content-Length:%d", b"Content-Length: %d ", b"content-length:\t%d", b"transfer-encoding:CHUNKED"),
    *(b"Content-Length: %d\r\nContent-Length: %d", b"Content-Length: %d\r\nTransfer-Encoding: chunked"),
    *(b"Transfer-Encoding: chunked\r\nContent-Length: %d", b"Transfer-Encoding : chunked", b"X-A: 1"),
    *(b"Transfer-Encoding: chunked\r\nConnection: transfer-encoding",),
    *(b"Content-Length: %d\r\nConnection: content-length", b"Content-Length: %d\r\nConnection: close"),
]
BODIES = [
    b"",
    b"a",
    b"hello",
    b"0\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"x" * 300,
    b"{}",
]
SIZES = [b"%x"] * 90 + [
    b"%X",
    b"0%x",
    b"0000000000000000%x",
    b"0x%x",
    b"+%x",
    b" %x",
    b"%x ",
    b"",
    b"g",
    b"-%x",
]
EXTENSIONS = [b""] * 90 + [
    b";a",
    b";a=b",
    b' ; a="b;c"',
    b";a=\x00",
    b";\n",
    b";a\r",
    b";" + b"a" * 1100,
    b"; =b",
]
TRAILERS = [b""] * 24 + [
    b"X-T: 1\r\n",
    b"Content-Length: 9\r\n",
    b"X T: 1\r\n",
    b" X: 1\r\n",
    b"X-T: a\x00\r\n",
    b"X",
]
STATUS_LINES = [
    *([b"HTTP/1.1 200 OK"] * 100),
    *(
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 304 Not Modified",
        b"HTTP/1.1 404 Not Found",
    ),
    *(b"HTTP/1.1 503 Busy", b"HTTP/1.1 429 Slow", b"HTTP/1.1 200", b"HTTP/1.1 200 ", b"HTTP/1.1 99 X"),
    *(b"HTTP/1.1 600 X", b"HTTP/1.1 1000 X", b"HTTP/2.0 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 200 a\x00b"),
    *(b"HTTP/1.1 101 Switching Protocols", b"HTTP/0.9 200 OK", b"ICY 200 OK", b"HTTP/1.1 200 \xc3\xa9"),
]
INTERIM = [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    b"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 199 X\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.0 103 X\r\nConnection: X-A\r\nX-A: 1\r\n\r\n",
    b"HTTP/1.1 103\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
]
KNOWN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
"""A head that the proxy may have read before."""
TOKENS = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"\x00",
        b"\x0b",
        b"\x7f",
        b"\x80",
        b"\xff",
    ),
    *(b"0", b"5", b"\r\n0\r\n\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1"),
    *(b"Host: b.test\r\n", b"Connection: close\r\n", b"_", b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
]


def requests(random: Random) -> bytes:
    """What a client sends on one connection: one to three requests, more or less."""
    how = random.random()
    if how < 0.12:
        sent = traffic.alike(random)
    elif how < 0.17:
        sent = traffic.web_socket(random)
    else:
        count = random.choice((1, 1, 1, 2, 3))
        sent = b"".join([_request(random) for _ in range(count)])
    return _changed(random, sent)


def responses(random: Random) -> bytes:
    """What a replica sends to one request: interim responses, a final one, maybe something behind it."""
    parts = [random.choice(INTERIM) for _ in range(random.choice((0, 0, 0, 0, 0, 1, 2, 5)))]
    if random.random() < 0.08:
        parts.append(KNOWN + random.choice((b"ok", b"o", b"", b"ok\r\n", b"okHTTP/1.1 200 OK\r\n\r\n")))
    else:
        parts.append(_message(random, random.choice(STATUS_LINES), host=False))
    if random.random() < 0.05:
        parts.append(_message(random, b"HTTP/1.1 200 OK", host=False))
    return _changed(random, b"".join(parts))


def pieces(random: Random, data: bytes) -> list[bytes]:
    """``data`` as the segments in which it arrives."""
    how = random.random()
    if how < 0.5 or len(data) < 2:
        return [data]
    if how < 0.58:
        return [data[at : at + 1] for at in range(len(data))]
    if how < 0.64:
        cuts = [found.end() for found in _LINE.finditer(data)]
    elif how < 0.72:
        cuts = [found.start() for found in _BEGINNING.finditer(data)]
    else:
        cuts = sorted(random.randrange(1, len(data)) for _ in range(random.choice((1, 1, 2, 3, 4, 20))))
    return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]


_LINE = re.compile(rb"\n(?!\Z)")
_BEGINNING = re.compile(rb"(?<!\A)(?:GET|POST|PUT|HEAD|DELETE|HTTP/1.1) ")


def _request(random: Random) -> bytes:
    method = random.choice(METHODS[:4]) if random.random() < 0.8 else random.choice(METHODS)
    target = random.choice(TARGETS[:8]) if random.random() < 0.6 else random.choice(TARGETS)
    gap = b" " if random.random() < 0.98 else random.choice((b"  ", b"\t", b""))
    line = gap.join((method, target, random.choice(VERSIONS)))
    before = random.choice((b"\r\n", b"\r\n\r\n", b"\n")) if random.random() < 0.04 else b""
    return before + _message(random, line, host=random.random() < 0.96)


def _message(random: Random, line: bytes, host: bool) -> bytes:
    name = b"a.test" if random.random() < 0.95 else random.choice(HOSTS)
    lines = [b"Host: " + name] if host else []
    lines += [_field(random) for _ in range(random.choice((0, 0, 1, 2, 3, 6)))]
    body = b""
    if random.random() < 0.6:
        body = random.choice(BODIES)
        framing = random.choice(FRAMING)
        length = len(body) if random.random() < 0.95 else random.randrange(60)
        lines += framing.replace(b"%d", b"%d" % length).split(b"\r\n")
        if b"chunked" in framing.lower() and random.random() < 0.97:
            body = _chunks(random, body)
    random.shuffle(lines)
    head = b""
    for one in [line, *lines, b""]:
        head += one + random.choice(LINE_ENDS)
    return head + body


def _field(random: Random) -> bytes:
    colon = b": " if random.random() < 0.9 else random.choice((b":", b" :", b":\t", b"", b":  ", b"\t:"))
    if random.random() < 0.5:
        return random.choice(FIELDS)
    return random.choice(NAMES) + colon + random.choice(VALUES)


def _chunks(random: Random, body: bytes) -> bytes:
    coded = b""
    position = 0
    while position < len(body):
        size = random.randint(1, len(body) - position)
        coded += _chunk_line(random, size) + body[position : position + size]
        coded += b"\r\n" if random.random() < 0.98 else random.choice((b"\n", b"", b"XX\r\n"))
        position += size
    return coded + _chunk_line(random, 0) + random.choice(TRAILERS) + b"\r\n"


def _chunk_line(random: Random, size: int) -> bytes:
    digits = random.choice(SIZES)
    if b"%" in digits:
        digits %= size
    return digits + random.choice(EXTENSIONS) + (b"\r\n" if random.random() < 0.98 else b"\n")


def _changed(random: Random, data: bytes) -> bytes:
    """``data`` with none to three places changed."""
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 1, 2, 3))):
        at = random.randrange(len(data) + 1)
        to = min(len(data), at + random.choice((0, 0, 1, 1, 2, 5, 20)))
        how = random.randrange(5)
        if how == 0:
            put = random.choice(TOKENS)
        elif how == 1:
            put = bytes([random.randrange(256)])
        elif how == 2:
            put = b""
        elif how == 3:
            put = data[at:to] * 2
        else:
            other = random.randrange(len(data) + 1)
            put = data[other : other + random.randint(0, 30)]
        data = data[:at] + put + data[to:]
    return data
