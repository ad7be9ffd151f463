"""Section E, bodies: the cases of RFC 9112 §6.3; §6.1, 7.1, 8, 9.2, 9.3; RFC 9110 §6.5.1, 8.6, 9.3.2."""

from dataclasses import replace

from tests.routing.proxy.cases.response import (
    BARE,
    CHUNKED,
    OK,
    OK_ANSWER,
    Case,
    bad,
    bad_chunk,
    cut,
    good,
    last,
)

HELLO = b"5\r\nhello\r\n"
LENGTH_5 = OK + b"Content-Length: 5"
EVIL = OK + b"Content-Length: 4\r\n\r\nEVIL"


def to_head(case: Case) -> Case:
    return replace(case, method=b"HEAD", body=b"")


def to_1_0(case: Case) -> Case:
    return replace(case, version=b"1.0")


def length(value: bytes) -> bytes:
    return OK + b"Content-Length:" + value + b"\r\n\r\nok"


def coding(value: bytes) -> bytes:
    return OK + b"Transfer-Encoding:" + value + b"\r\n\r\n0\r\n\r\n"


NO_BODY = [
    to_head(good("E02", LENGTH_5 + b"\r\n\r\n", LENGTH_5)),
    to_head(good("E02b chunks announced", CHUNKED, BARE)),
    to_head(good("E02c no length", OK + b"\r\n", BARE)),
    to_head(
        good(
            "E02d of an error",
            b"HTTP/1.1 404 X\r\nContent-Length: 9\r\n\r\n",
            b"HTTP/1.1 404 X\r\nContent-Length: 9",
        )
    ),
    to_head(last("E02e a body all the same", LENGTH_5 + b"\r\n\r\nhello", LENGTH_5)),
    to_head(last("E02f chunks all the same", CHUNKED + b"0\r\n\r\n", BARE)),
    to_head(last("E02g close", LENGTH_5 + b"\r\nConnection: close\r\n\r\n", LENGTH_5)),
    to_head(to_1_0(good("E02h 1.0", LENGTH_5 + b"\r\n\r\n", LENGTH_5))),
    to_head(bad("E02i bad length", OK + b"Content-Length: x\r\n\r\n")),
    last(
        "E04", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 204 No Content", b""
    ),
    last(
        "E04b",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content",
        b"",
    ),
    good("E04c plain", b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content", b""),
    good(
        "E04d length 0",
        b"HTTP/1.1 204 X\r\nContent-Length: 0\r\nA: 1\r\n\r\n",
        b"HTTP/1.1 204 X\r\nA: 1",
        b"",
    ),
    last("E04e body alone", b"HTTP/1.1 204 X\r\n\r\nhello", b"HTTP/1.1 204 X", b""),
    # RFC 9110 §8.6: what a 200 would have.
    good(
        "E05 304", b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n", b"HTTP/1.1 304 X\r\nContent-Length: 5", b""
    ),
    good("E05b coding", b"HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 304 X", b""),
    last(
        "E05c body",
        b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 304 X\r\nContent-Length: 5",
        b"",
    ),
    good("E05d plain", b"HTTP/1.1 304 X\r\nETag: 1\r\n\r\n", b"HTTP/1.1 304 X\r\nETag: 1", b""),
    to_1_0(good("E05e 204 to 1.0", b"HTTP/1.1 204 X\r\n\r\n", b"HTTP/1.1 204 X", b"")),
    good(
        "E30 205", b"HTTP/1.1 205 X\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 205 X\r\nContent-Length: 0", b""
    ),
    good(
        "E30b 205 with a body",
        b"HTTP/1.1 205 X\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 205 X\r\nContent-Length: 2",
    ),
]

LENGTHS = [
    good("E01", OK_ANSWER),
    good("E01b empty", OK + b"Content-Length: 0\r\n\r\n", OK + b"Content-Length: 0", b""),
    replace(good("E01c to POST", OK_ANSWER), method=b"POST"),
    to_1_0(good("E01d to 1.0", OK_ANSWER)),
    bad("E08", OK + b"Transfer-Encoding: chunked\r\nContent-Length: 30\r\n\r\n0\r\n\r\n"),
    bad("E08b the other order", OK + b"Content-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    bad("E08c length 0", OK + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    bad("E09", OK + b"Content-Length: foo\r\n\r\n"),
    bad("E09b twice", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
    bad("E09c two", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    bad("E09d empty", length(b"")),
    bad("E09e +2", length(b" +2")),
    bad("E09f -2", length(b" -2")),
    bad("E09g 0x2", length(b" 0x2")),
    bad("E09h list", length(b" 2, 2")),
    bad("E09i beyond 64 bits", length(b" 18446744073709551618")),
    bad("E09j 2.0", length(b" 2.0")),
    good("E09k leading zeros", length(b" 002"), OK + b"Content-Length: 002"),
    good("E09l white space", length(b"\t2 \t"), OK + b"Content-Length:\t2 \t"),
    last("E16", OK_ANSWER + EVIL),
    last("E16b a line end behind", OK_ANSWER + b"\r\n"),
    last("E16c behind chunks", CHUNKED + HELLO + b"0\r\n\r\n" + EVIL, BARE, b"hello"),
    cut("E18 short", LENGTH_5 + b"\r\n\r\nok", "fin", LENGTH_5, b"ok"),
    cut("E18b reset", LENGTH_5 + b"\r\n\r\nok", "rst", LENGTH_5, b"ok"),
    cut("E18c nothing of it", LENGTH_5 + b"\r\n\r\n", "fin", LENGTH_5, b""),
]

CODINGS = [
    bad("E10", OK + b"Transfer-Encoding: foo\r\n\r\nabc", "fin"),
    bad("E10b", OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    bad("E10c gzip", coding(b" gzip, chunked")),
    bad("E10d chunked is not last", coding(b" chunked, gzip")),
    bad("E10e identity", coding(b" identity")),
    bad("E10f parameter", coding(b" chunked;q=1")),
    bad("E10g quoted", coding(b' "chunked"')),
    bad("E10h empty", coding(b"")),
    bad("E10i empty element", coding(b" ,chunked")),
    bad("E10j xchunked", coding(b" xchunked")),
    bad("E10k VT", coding(b" \x0bchunked")),
    good(
        "E10l capitals", OK + b"TRANSFER-ENCODING:\tChunked \r\n\r\n" + HELLO + b"0\r\n\r\n", BARE, b"hello"
    ),
    last("E11", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", BARE),
    last("E11b 1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    good("E11c 1.0 kept", b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok"),
    last(
        "E11d 1.0 kept with a coding",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"2\r\nok\r\n0\r\n\r\n",
        BARE,
    ),
    last("E11e 1.0 to the end", b"HTTP/1.0 200 OK\r\n\r\nhello", BARE, b"hello", "fin"),
]

CHUNKS = [
    good("E03 none", CHUNKED + b"0\r\n\r\n", BARE, b""),
    good("E03b some", CHUNKED + HELLO + b'A;x="y"\r\n0123456789\r\n000\r\n\r\n', BARE, b"hello0123456789"),
    last(
        "E03c close",
        OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + HELLO + b"0\r\n\r\n",
        BARE,
        b"hello",
    ),
    good(
        "E03d an error",
        b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n" + HELLO + b"0\r\n\r\n",
        b"HTTP/1.1 500 X",
        b"hello",
    ),
    cut("E19", CHUNKED + HELLO, "fin", BARE, b"hello"),
    bad_chunk("E19b bad size", HELLO + b"0x1\r\n", b"hello"),
    bad_chunk("E19c bad first size", b"+5\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("E19d longer than its size", b"5\r\nhello!\r\n0\r\n\r\n", b"hello"),
    bad_chunk("E19e LF", b"5\nhello\n0\n\n"),
    bad_chunk("E19f overflow", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("E19g extension", b"5;\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("E19h extensions", (b"1;" + b"a" * 900 + b"\r\nx\r\n") * 20 + b"0\r\n\r\n", b"x" * 18),
    cut("E19i in the last line end", CHUNKED + HELLO + b"0\r\n\r", "fin", BARE, b"hello"),
    cut("E20", CHUNKED + HELLO, "rst", BARE, b"hello"),
    to_1_0(cut("E20b to 1.0", CHUNKED + HELLO, "rst", BARE, b"hello")),
    to_1_0(good("E22", CHUNKED + HELLO + b"0\r\n\r\n", BARE, b"hello")),
    good(
        "E26",
        OK
        + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        + HELLO
        + b"0\r\nX-T: 1\r\nSet-Cookie: t=1\r\n\r\n",
        BARE,
        b"hello",
    ),
    bad_chunk("E26b bad trailer", HELLO + b"0\r\nX T: 1\r\n\r\n", b"hello"),
    bad_chunk("E26c folded trailer", HELLO + b"0\r\nX-T: 1\r\n 2\r\n\r\n", b"hello"),
    bad_chunk("E26d LF in the trailers", HELLO + b"0\r\nX-T: 1\n\r\n", b"hello"),
    bad_chunk("E26e long trailers", HELLO + b"0\r\n" + b"X-T: 12345678\r\n" * 700 + b"\r\n", b"hello"),
    bad_chunk("E26f a response as trailer", HELLO + b"0\r\n" + EVIL, b"hello"),
]

TO_THE_END = [
    last("E21", OK + b"\r\nhello", BARE, b"hello", "fin"),
    to_1_0(last("E21b to 1.0", OK + b"\r\nhello", BARE, b"hello", "fin")),
    last("E21c empty", OK + b"\r\n", BARE, b"", "fin"),
    cut("E21d reset", OK + b"\r\nhello", "rst", BARE, b"hello"),
    to_1_0(cut("E21e reset to 1.0", OK + b"\r\nhello", "rst", BARE, b"hello")),
    last(
        "E21f keep-alive without a length", OK + b"Connection: keep-alive\r\n\r\nhello", BARE, b"hello", "fin"
    ),
]

NOTHING = [
    replace(bad("E28", b"", "fin"), method=b"POST"),
    bad("E28b GET", b"", "fin"),
    bad("E28c a piece of the head", b"HTTP/1.1 200 OK\r\nX-A", "fin"),
    replace(bad("E29", b"", "rst"), method=b"POST"),
    bad("E29b GET", b"", "rst"),
]

BODIES = NO_BODY + LENGTHS + CODINGS + CHUNKS + TO_THE_END + NOTHING
