"""Section B: field syntax and Host (RFC 9110 §5.1, 5.3, 5.5, 5.6.2, 7.2; RFC 9112 §2.2, 3.2, 5, 5.1, 5.2)."""

from tests.routing.proxy.cases.request import Case, Forwarded, H, get, line, passes, post, posted, refused

GET = Forwarded()


def host(value: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\nHost:" + value + b"\r\n\r\n"


def kept(id: str, fields: bytes) -> Case:
    """These fields arrive as they were sent."""
    return passes(id, get(fields), Forwarded(fields=fields))


HOSTS = [
    refused("B01", line(b"GET / HTTP/1.1", b"")),
    passes("B01b not in 1.0", line(b"GET / HTTP/1.0", b""), Forwarded(via=b"1.0 switchyard"), closes=True),
    passes("B01c last", line(b"GET / HTTP/1.1", b"X: 1\r\nhOST: a.test\r\n"), Forwarded(fields=b"X: 1\r\n")),
    refused("B02", get(b"Host: b.test\r\n")),
    refused("B02b the same twice", get(H)),
    refused("B02c among others", line(b"GET / HTTP/1.1", b"X: 1\r\n" + H + b"Y: 1\r\nHOST: a.test\r\n")),
    refused("B02d in 1.0", line(b"GET / HTTP/1.0", H + H)),
    refused("B03", host(b" a b")),
    refused("B03b", host(b" a.test/#@b.test")),
    # RFC 9110 §4.2.1: an http URI without a host is not valid.
    refused("B03c empty", host(b" ")),
    passes("B03d IPv6", host(b" [::1]:8080"), GET),
    refused("B03e bad port", host(b" a.test:x")),
    passes("B03f empty port", host(b" a.test:"), GET),
    refused("B03g half a bracket", host(b" [::1")),
    refused("B03h two ports", host(b" a.test:80:80")),
    refused("B03i user", host(b" u@a.test")),
    passes("B03j white space", host(b"\t a.test:1 \t"), GET),
    passes("B03k percent", host(b" a%2etest"), GET),
    refused("B03l bad percent", host(b" a%zz")),
    refused("B03m obs-text", host(b" \xc3\xa9.test")),
    refused("B03n list", host(b" a.test, b.test")),
    refused("B03o path", host(b" a.test/x")),
    refused("B03p URL", host(b" http://a.test")),
    refused("B03q long port", host(b" a.test:000080")),
    refused("B03r bracket in a name", host(b" [a.test]")),
]

WHITE_SPACE = [
    kept("B04 none", b"X-A:1\r\n"),
    kept("B04b much", b"X-A: \t 1 \t \r\n"),
    kept("B04c empty", b"X-A:\r\nX-B: \t\r\n"),
    kept("B04d inside", b"X-A: a\t b\r\n"),
    refused("B05", get(b"X-A : 1\r\n")),
    refused("B05b HTAB", get(b"X-A\t: 1\r\n")),
    refused("B05c length", post(b"Content-Length : 5\r\n")),
    refused("B05d coding", post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n")),
    refused("B05e Host", line(b"GET / HTTP/1.1", b"Host : a.test\r\n")),
    refused("B06", b"GET / HTTP/1.1\r\n X-A: 1\r\n" + H + b"\r\n"),
    refused("B06b HTAB", b"GET / HTTP/1.1\r\n\tX-A: 1\r\n" + H + b"\r\n"),
    refused("B06c nothing else", b"GET / HTTP/1.1\r\n \r\n" + H + b"\r\n"),
    refused("B07 folded", get(b"X-A: 1\r\n 2\r\n")),
    refused("B07b HTAB", get(b"X-A: 1\r\n\t2\r\n")),
    refused("B07c coding", post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n")),
    refused("B07d length", post(b"Content-Length:\r\n 5\r\n")),
    refused("B07e Host", line(b"GET / HTTP/1.1", b"Host:\r\n a.test\r\n")),
    refused("B07f to nothing", get(b"X-A: 1\r\n \r\n")),
]

CHARACTERS = [
    refused("B08", get(b"X-A: 1\rX-B: 2\r\n")),
    refused("B08b at the end", get(b"X-A: 1\r\r\n")),
    refused("B08c in a name", get(b"X-\rA: 1\r\n")),
    refused("B08d alone", get(b"\r\r\n")),
    refused("B09", get(b"X-A: a\x00b\r\n")),
    refused("B09b DEL", get(b"X-A: a\x7fb\r\n")),
    refused("B09c VT", get(b"X-A: a\x0bb\r\n")),
    refused("B09d FF", get(b"X-A: a\x0cb\r\n")),
    refused("B09e ESC", get(b"X-A: \x1b[2J\r\n")),
    refused("B10", b"GET / HTTP/1.1\nHost: a.test\n\n"),
    refused("B10b the empty line", b"GET / HTTP/1.1\r\nHost: a.test\r\n\n"),
    refused("B10c the first", b"GET / HTTP/1.1\nHost: a.test\r\n\r\n"),
    refused("B11", line(b"POST / HTTP/1.1", H + b"X-A: x\nContent-Length: 5\r\n") + b"hello"),
    refused("B11b before a coding", post(b"X-A: x\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")),
    refused("B13", get(b"XYZ\r\n")),
    refused("B13b empty name", get(b": 1\r\n")),
    refused("B14", get(b"Fo@[]: 1\r\n")),
    refused("B14b obs-text", get(b"X-\xc3\xa9: 1\r\n")),
    refused("B14c quoted", get(b'"X-A": 1\r\n')),
    kept("B14d all that a name may hold", b"!#$%&'*+-.^`|~09azAZ: 1\r\n"),
    kept("B16", b"X-A: \xc3\xa9\xff\x80\r\n"),
    kept("B16b marks", b"X-A: \"a, b\";c='d'\\(e) @{}[]<>\r\n"),
]

NAMES = [
    passes(
        "B15",
        post(b"Content_Length: 5\r\nX_Forwarded_For: 6.6.6.6\r\nContent-Length: 0\r\n", b""),
        posted(b"Content-Length: 0\r\n", b""),
    ),
    passes("B15b Host", get(b"HO_ST: b.test\r\n_: 1\r\nX-A: 1\r\n"), Forwarded(fields=b"X-A: 1\r\n")),
    kept("B19", b"X-A: 1\r\nX-B: 9\r\nX-A: 2\r\nX-A: 3\r\n"),
    kept("B19b in other cases", b"x-a: 1\r\nX-A: 2\r\nX-a: 3\r\n"),
    kept("B19c Cookie", b"Cookie: a=1\r\nCookie: b=2\r\n"),
]

SIZES = [
    refused("B18", get(b"".join(b"X-%d: 1\r\n" % i for i in range(2000))), 431),
    refused("B18b long", get(b"X: " + b"a" * 70_000 + b"\r\n"), 431),
    kept("B18c as many as may be", b"".join(b"X-%d: 1\r\n" % i for i in range(127))),
    refused("B18d one more", get(b"".join(b"X-%d: 1\r\n" % i for i in range(128))), 431),
    refused("B18e Host among them", line(b"GET / HTTP/1.1", b"A:\r\n" * 100 + H + b"A:\r\n" * 28), 431),
    passes(
        "B18f Host among as many as may be",
        line(b"GET / HTTP/1.1", b"A:\r\n" * 100 + H + b"A:\r\n" * 27),
        Forwarded(fields=b"A:\r\n" * 127),
    ),
    refused("B18g long name", get(b"X" * 70_000 + b": 1\r\n"), 431),
    kept("B18h nearly too long", b"X: " + b"a" * 65_000 + b"\r\n"),
]

FIELDS = HOSTS + WHITE_SPACE + CHARACTERS + NAMES + SIZES
