"""Section E, heads: RFC 9110 §5.5, 7.6.1, 15, 15.2; RFC 9112 §2.2, 2.3, 4, 5.1, 5.2, 11.1."""

from dataclasses import replace

from tests.routing.proxy.cases.response import BARE, CHUNKED, OK, OK_ANSWER, PLAIN, Case, bad, good, last

HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>"
REST = b"Content-Length: 2\r\n\r\nok"


def field(id: str, line: bytes) -> Case:
    """Passed on as it came."""
    return good(id, OK + line + b"\r\n" + REST, OK + line + b"\r\nContent-Length: 2")


def bad_field(id: str, lines: bytes) -> Case:
    return bad(id, OK + lines + b"\r\n" + REST)


def interim(id: str, sent: bytes, *before: bytes) -> Case:
    return replace(good(id, sent + OK_ANSWER), before=before)


def status(id: str, line: bytes, as_line: bytes = b"") -> Case:
    return good(id, line + b"\r\n" + REST, (as_line or line) + b"\r\nContent-Length: 2")


INTERIM = [
    interim("E06", HINTS + b"\r\n\r\n", HINTS),
    replace(good("E06b", HINTS + b"\r\n\r\n" + OK_ANSWER), version=b"1.0"),
    # RFC 9110 §15.2: a proxy forwards every 1xx that it has not asked for itself.
    interim("E06c 100", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue"),
    interim(
        "E06d several",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + (HINTS + b"\r\n\r\n") * 2,
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 102 Processing",
        HINTS,
        HINTS,
    ),
    # RFC 9110 §8.6, RFC 9112 §6.1: neither stands in a 1xx.
    interim("E06e length", b"HTTP/1.1 103 X\r\nContent-Length: 5\r\nA: 1\r\n\r\n", b"HTTP/1.1 103 X\r\nA: 1"),
    interim(
        "E06f length of an unknown one", b"HTTP/1.1 199 X\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 199 X"
    ),
    interim("E06g coding", b"HTTP/1.1 103 X\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 103 X"),
    interim(
        "E06h of this hop",
        b"HTTP/1.1 103 X\r\nConnection: B\r\nB: 1\r\nKeep-Alive: 5\r\nC: 1\r\n\r\n",
        b"HTTP/1.1 103 X\r\nC: 1",
    ),
    interim("E06i 1.0", b"HTTP/1.0 103 X\r\n\r\n", b"HTTP/1.1 103 X"),
    replace(bad("E06j nothing behind", HINTS + b"\r\n\r\n", "fin"), before=(HINTS,)),
    replace(bad("E06k a body", HINTS + b"\r\n\r\nhello" + OK_ANSWER), before=(HINTS,)),
    replace(
        good("E06l before no content", HINTS + b"\r\n\r\nHTTP/1.1 204 X\r\n\r\n", b"HTTP/1.1 204 X", b""),
        before=(HINTS,),
    ),
    replace(
        good("E06m to HEAD", HINTS + b"\r\n\r\n" + PLAIN + b"\r\n\r\n", body=b""),
        before=(HINTS,),
        method=b"HEAD",
    ),
    bad("E07 101", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\nraw"),
    bad("E07b 101 to a WebSocket", b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw"),
    replace(bad("E07c behind another", HINTS + b"\r\n\r\nHTTP/1.1 101 X\r\n\r\n"), before=(HINTS,)),
]

FIELDS = [
    bad("E12", OK + b"X-A: 1\r\n 2\r\n" + REST),
    bad_field("E12b HTAB", b"X-A: 1\r\n\t2"),
    bad_field("E12c before the first", b" X-A: 1"),
    bad_field("E12d coding", b"Transfer-Encoding:\r\n chunked"),
    bad("E13 LF", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    bad_field("E13b one LF", b"X-A: 1\nSet-Cookie: x=1"),
    bad("E13c the empty line", PLAIN + b"\r\n\nok"),
    bad_field("E14", b"X-A: a\x00b"),
    bad_field("E14b", b"X-A: a\rSet-Cookie: x=1"),
    bad_field("E14c DEL", b"X-A: a\x7fb"),
    bad_field("E14d ESC", b"X-A: \x1b[2J"),
    bad_field("E14e SP before the colon", b"X-A : 1"),
    bad_field("E14f no colon", b"X-A"),
    bad_field("E14g no name", b": 1"),
    bad_field("E14h bad name", b"X(A): 1"),
    bad_field("E14i CR at the end", b"X-A: 1\r"),
    field("E14j obs-text", b"X-A: \xc3\xa9\xff"),
    field("E14k empty", b"X-A:\r\nX-B: \t"),
    field("E14l white space", b"X-A:\t 1 \t"),
    field("E14m with _", b"X_A: 1"),
    good(
        "E25",
        OK + b"Connection: X-Sec\r\nX-Sec: 1\r\nKeep-Alive: timeout=1\r\nUpgrade: h2c\r\n" + REST,
    ),
    last("E25b close", OK + b"Connection: close\r\n" + REST),
    last("E25c close in a list", OK + b"Connection: X-A ,\tCLOSE\r\nx-a: 1\r\n" + REST),
    last("E25d close in the second field", OK + b"Connection: keep-alive\r\nConnection: close\r\n" + REST),
    good("E25e framing is never nominated away", OK + b"Connection: Content-Length\r\n" + REST),
    good("E25f nor what the proxy writes", OK + b"Connection: Via, X-Request-Id\r\n" + REST),
    good(
        "E25g of proxies",
        OK + b"Proxy-Authenticate: Basic\r\nProxy-Connection: close\r\nTE: x\r\nTrailer: X\r\n" + REST,
    ),
    field("E25h names that only begin alike", b"TEA: 1\r\nTrailers: 2\r\nUpgrades: 3\r\nKeep-Alive-X: 4"),
    field("E25i Via", b"Via: 1.0 fred"),
    good("E25j what the proxy says of itself", OK + b"X-Switchyard-Replica: x\r\nX-Request-Id: y\r\n" + REST),
    field("E27 Set-Cookie twice", b"Set-Cookie: a=1\r\nSet-Cookie: b=2"),
    field("E27b many", b"".join(b"X-%d: 1\r\n" % i for i in range(300))[:-2]),
    field("E27c long", b"X-A: " + b"a" * 120_000),
    bad("E27d too long", OK + b"X-A: " + b"a" * 131_072 + b"\r\n" + REST),
    bad_field("E27e too many", b"X-A: 1234\r\n" * 14_000 + b"X-A: 1"),
]

STATUS_LINES = [
    bad("E15 not HTTP", b"SSH-2.0-OpenSSH_9.2\r\n"),
    bad("E15b HTTP/0.9", b"<html></html>\r\n", "fin"),
    bad("E15c ICY", b"ICY 200 OK\r\n" + REST),
    bad("E15d lower case", b"http/1.1 200 OK\r\n" + REST),
    bad("E15e two SP", b"HTTP/1.1  200 OK\r\n" + REST),
    bad("E15f HTAB", b"HTTP/1.1\t200 OK\r\n" + REST),
    bad("E15g no SP", b"HTTP/1.1200 OK\r\n" + REST),
    bad("E15h empty line before", b"\r\n" + OK_ANSWER),
    bad("E15i SP before", b" " + OK_ANSWER),
    bad("E23 status 000", b"HTTP/1.1 000 X\r\n" + REST),
    bad("E23b", b"HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n"),
    bad("E23c", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
    bad("E23d 1.2", b"HTTP/1.2 200 OK\r\n" + REST),
    bad("E23e four digits", b"HTTP/1.1 2000 X\r\n" + REST),
    bad("E23f no digits", b"HTTP/1.1 2x0 X\r\n" + REST),
    bad("E23g sign", b"HTTP/1.1 -20 X\r\n" + REST),
    bad("E23h none", b"HTTP/1.1 \r\n" + REST),
    status("E23i above 599", b"HTTP/1.1 799 X"),
    status("E23j unknown", b"HTTP/1.1 299 X"),
    status("E24 no reason", b"HTTP/1.1 200", b"HTTP/1.1 200 "),
    status("E24b empty reason", b"HTTP/1.1 200 "),
    status("E24c obs-text", b"HTTP/1.1 200 \xc3\xa9 \t!"),
    status("E24d long", b"HTTP/1.1 200 " + b"a" * 9000),
    bad("E24e NUL", b"HTTP/1.1 200 a\x00\r\n" + REST),
    bad("E24f CR", b"HTTP/1.1 200 a\rb\r\n" + REST),
    bad("E24g no SP", b"HTTP/1.1 200OK\r\n" + REST),
    good("E24h no fields", b"HTTP/1.1 204\r\n\r\n", b"HTTP/1.1 204 ", b""),
    last("E24i no fields but a body", BARE + b"\r\n\r\nhello", BARE, b"hello", "fin"),
    good("E24j chunks only", CHUNKED + b"0\r\n\r\n", BARE, b""),
]

HEADS = INTERIM + FIELDS + STATUS_LINES
