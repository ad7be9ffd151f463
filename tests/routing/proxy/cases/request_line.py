"""Section A: request line and target (RFC 9112 §2.2, 2.3, 3; RFC 9110 §4.2.4, 9.1, 9.3.8, 15.6.6)."""

from dataclasses import replace

from tests.routing.proxy.cases.request import (
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


def to(target: bytes) -> Forwarded:
    return Forwarded(b"GET %b HTTP/1.1" % target)


BEFORE_THE_LINE = [
    passes("A01", get(), GET),
    passes("A02", b"\r\n" + get(), GET),
    passes("A02b many", b"\r\n\r\n\r\n" + get(), GET),
    passes(
        "A02c after a body",
        post(b"Content-Length: 5\r\n") + b"\r\n" + get(),
        posted(b"Content-Length: 5\r\n"),
        GET,
    ),
    refused("A02d LF", b"\n" + get()),
    refused("A02e CR", b"\r" + get()),
    refused("A02f SP", b" " + get()),
]

VERSIONS = [
    refused("A03 none", b"GET /\r\n\r\n"),
    refused("A03b 0.9", line(b"GET / HTTP/0.9"), 505),
    refused("A04", line(b"GET / HTTP/2.0"), 505),
    refused("A04b 1.2", line(b"GET / HTTP/1.2"), 505),
    refused("A05", line(b"GET / HTTP/9.9"), 505),
    refused("A05b 1.10", line(b"GET / HTTP/1.10")),
    refused("A05c 11", line(b"GET / HTTP/11")),
    refused("A05d lower case", line(b"GET / http/1.1")),
    refused("A05e SP behind", line(b"GET / HTTP/1.1 ")),
    refused("A05f HTAB behind", line(b"GET / HTTP/1.1\t")),
    refused("A05g other protocol", line(b"GET / ICY/1.1")),
    # RFC 9112 §2.3: what goes on bears the proxy's own version, Via the client's.
    passes("A05h 1.0", line(b"GET / HTTP/1.0"), Forwarded(via=b"1.0 switchyard"), closes=True),
]

SPACES = [
    refused("A06 HTAB", line(b"GET\t/\tHTTP/1.1")),
    refused("A06b no target", line(b"GET HTTP/1.1")),
    refused("A06c empty target", line(b"GET  HTTP/1.1")),
    refused("A07", line(b"GET  / HTTP/1.1")),
    refused("A07b before the version", line(b"GET /  HTTP/1.1")),
    refused("A07c CR in the line", line(b"GET / \rHTTP/1.1")),
    refused("A08", line(b"GET /a b HTTP/1.1")),
]

METHODS = [
    refused("A09 bad character", line(b"G@T / HTTP/1.1")),
    refused("A09b NUL", line(b"GE\x00T / HTTP/1.1")),
    refused("A09c none", line(b" / HTTP/1.1")),
    # RFC 9110 §9.1: a method's name is case-sensitive.
    passes("A09d lower case", line(b"get / HTTP/1.1"), Forwarded(b"get / HTTP/1.1")),
    refused("A09e long", line(b"M" * 65 + b" / HTTP/1.1"), 501),
    passes("A09f not so long", line(b"M" * 64 + b" / HTTP/1.1"), Forwarded(b"M" * 64 + b" / HTTP/1.1")),
    refused("A17", line(b"TRACE / HTTP/1.1", H + b"Max-Forwards: 0\r\nCookie: s=1\r\n"), 405),
    refused("A17b with a body", line(b"TRACE / HTTP/1.1", H + b"Content-Length: 5\r\n") + b"hello", 405),
    passes("A18", line(b"FOO / HTTP/1.1"), Forwarded(b"FOO / HTTP/1.1")),
    passes(
        "A18b of a token's marks",
        line(b"!#$%&'*+-.^`|~9 / HTTP/1.1"),
        Forwarded(b"!#$%&'*+-.^`|~9 / HTTP/1.1"),
    ),
    passes("A18c with _", line(b"A_B / HTTP/1.1"), Forwarded(b"A_B / HTTP/1.1")),
]

TARGETS = [
    refused("A10", line(b"GET /a\x00b HTTP/1.1")),
    refused("A10b", line(b"GET /a\x7fb HTTP/1.1")),
    refused("A10c obs-text", line(b"GET /a\xc3\xa9 HTTP/1.1")),
    refused("A10d CR", line(b"GET /a\rb HTTP/1.1")),
    # Not in the grammar of a URI, but often sent, and none of them ends a target.
    passes("A10e marks", line(b'GET /a"<>\\^`{|} HTTP/1.1'), to(b'/a"<>\\^`{|}')),
    passes("A10f percent", line(b"GET /%00%0d%0a%zz HTTP/1.1"), to(b"/%00%0d%0a%zz")),
    Case("A10g dots", line(b"GET /a/../../b/./c HTTP/1.1"), (400,)),
    passes("A10h slashes", line(b"GET //b.test/x HTTP/1.1"), to(b"//b.test/x")),
    refused("A11 fragment", line(b"GET /a#b HTTP/1.1")),
    refused("A13 authority-form", line(b"GET a.test:80 HTTP/1.1")),
    refused("A13b CONNECT", line(b"CONNECT a.test:80 HTTP/1.1"), 405),
    refused("A13c CONNECT elsewhere", line(b"CONNECT http://a.test/ HTTP/1.1"), 405),
    answered_here("A14", line(b"OPTIONS * HTTP/1.1")),
    answered_here("A14b of many hops", line(b"OPTIONS * HTTP/1.1", H + b"Max-Forwards: 9\r\n")),
    replace(
        answered_here(
            "A14c body", line(b"OPTIONS * HTTP/1.1", H + b"Content-Length: 5\r\n") + b"hello" + get(), GET
        ),
        early=True,
    ),
    passes("A14d of a path", line(b"OPTIONS /x HTTP/1.1"), Forwarded(b"OPTIONS /x HTTP/1.1")),
    refused("A15", line(b"GET * HTTP/1.1")),
    refused("A15b POST", line(b"POST * HTTP/1.1")),
    refused("A15c more than *", line(b"OPTIONS *x HTTP/1.1")),
    refused("A16 relative", line(b"GET a/b HTTP/1.1")),
    refused("A16b query alone", line(b"GET ?a=b HTTP/1.1")),
    passes("A20", line(b"GET /" + b"a" * 7950 + b" HTTP/1.1"), to(b"/" + b"a" * 7950)),
    refused("A20b", line(b"GET /" + b"a" * 65536 + b" HTTP/1.1"), 414),
    passes("A20c as long as may be", line(b"GET /" + b"a" * 16383 + b" HTTP/1.1"), to(b"/" + b"a" * 16383)),
    refused("A20d one more", line(b"GET /" + b"a" * 16384 + b" HTTP/1.1"), 414),
    refused("A21 TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    refused("A21b PROXY protocol", b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + get()),
    refused("A21c HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
]

ABSOLUTE = [
    passes("A11b", line(b"GET http://a.test/x HTTP/1.1"), to(b"/x")),
    passes("A11c no path", line(b"GET http://a.test?q=1 HTTP/1.1"), to(b"/?q=1")),
    passes("A11d nothing behind", line(b"GET http://a.test HTTP/1.1"), to(b"/")),
    refused("A11e other scheme", line(b"GET ftp://a.test/x HTTP/1.1")),
    passes("A11f other host", line(b"GET http://b.test/x HTTP/1.1"), to(b"/x")),
    passes("A11g https and port", line(b"GET https://a.test:8443/x?y HTTP/1.1"), to(b"/x?y")),
    passes("A11h capitals", line(b"GET HTTP://A.TEST/x HTTP/1.1"), to(b"/x")),
    passes("A11i IPv6", line(b"GET http://[::1]:80/x HTTP/1.1"), to(b"/x")),
    refused("A11j no host", line(b"GET http:///x HTTP/1.1")),
    refused("A11k bad port", line(b"GET http://a.test:x/ HTTP/1.1")),
    refused("A11l without Host", line(b"GET http://a.test/ HTTP/1.1", b"")),
    refused("A11m bad Host", line(b"GET http://a.test/ HTTP/1.1", b"Host: a b\r\n")),
    refused("A11n fragment", line(b"GET http://a.test/#x HTTP/1.1")),
    refused("A11o one slash", line(b"GET http:/a.test/ HTTP/1.1")),
    passes(
        "A11p 1.0",
        line(b"GET http://a.test/x HTTP/1.0", b""),
        Forwarded(b"GET /x HTTP/1.1", via=b"1.0 switchyard"),
        closes=True,
    ),
    # RFC 9112 §3.2.4: without path and query it is the asterisk-form of the last proxy.
    answered_here("A11q OPTIONS", line(b"OPTIONS http://a.test HTTP/1.1")),
    passes(
        "A11r OPTIONS of a query",
        line(b"OPTIONS http://a.test?x HTTP/1.1"),
        Forwarded(b"OPTIONS /?x HTTP/1.1"),
    ),
    refused("A12", line(b"GET http://u:p@a.test/x HTTP/1.1")),
    refused("A12b user alone", line(b"GET http://u@a.test/x HTTP/1.1")),
]

REQUEST_LINE = BEFORE_THE_LINE + VERSIONS + SPACES + METHODS + TARGETS + ABSOLUTE
