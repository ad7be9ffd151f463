"""Section C: where a request ends (RFC 9112 §6.1, 6.3, 7.1, 8, 9.3, 9.6; RFC 9110 §6.5.1, 8.6)."""

from dataclasses import replace

from tests.routing.proxy.cases.request import (
    CH,
    FIVE,
    FORTY,
    TE,
    Case,
    Forwarded,
    H,
    N,
    answered_here,
    bad_chunk,
    get,
    line,
    passes,
    post,
    posted,
    refused,
)

GET = Forwarded()
EMPTY_THEN_N = b"0\r\n\r\n" + N


def coded(value: bytes) -> bytes:
    return post(b"Transfer-Encoding:" + value + b"\r\n", EMPTY_THEN_N)


def length(value: bytes) -> bytes:
    return post(b"Content-Length:" + value + b"\r\n")


def hello(id: str, chunks: bytes, body: bytes = b"hello") -> Case:
    return passes(id, CH + chunks, posted(body=body, chunked=True))


def bad_after(id: str, chunks: bytes) -> Case:
    """Behind a good chunk."""
    return bad_chunk(id, b"5\r\nhello\r\n" + chunks)


LENGTHS = [
    refused("C01", post(b"Content-Length: 4\r\n" + TE, EMPTY_THEN_N)),
    refused("C01b 0", post(b"Content-Length: 0\r\n" + TE, EMPTY_THEN_N)),
    refused("C02", post(TE + b"Content-Length: 4\r\n", EMPTY_THEN_N)),
    refused("C02b in 1.0", line(b"POST /p HTTP/1.0", H + TE + b"Content-Length: 4\r\n") + EMPTY_THEN_N),
    refused("C04", post(FIVE + FIVE)),
    refused("C04b", length(b" 5, 5")),
    refused("C04c another", post(FIVE + b"X: 1\r\nContent-Length: 6\r\n")),
    refused("C04d list", length(b" 5, 6")),
    refused("C04e empty member", length(b" 5,")),
    refused("C05 +5", length(b" +5")),
    refused("C05b", length(b" -5")),
    refused("C05c", length(b" 0x5")),
    refused("C05d 5.0", length(b" 5.0")),
    refused("C05e", length(b" ")),
    refused("C05f", length(b" 5 5")),
    refused("C05g 5e0", length(b" 5e0")),
    refused("C05h 5_0", length(b" 5_0")),
    refused("C05i quoted", length(b' "5"')),
    refused("C05j digit of another script", length(b" \xd9\xa5")),
    refused("C05k VT", length(b" \x0b5")),
    passes("C05l white space", length(b"\t5 \t"), posted(b"Content-Length:\t5 \t\r\n")),
    # RFC 9110 §8.6: 1*DIGIT.
    passes("C05m leading zeros", length(b" 005"), posted(b"Content-Length: 005\r\n")),
    refused("C06", length(b" 18446744073709551621")),
    refused("C06b 19 digits", length(b" 9999999999999999999")),
    refused("C06c many zeros", length(b" " + b"0" * 30 + b"5")),
    refused("C06d over the limit", length(b" 67108865"), 413),
    refused("C06e far over", length(b" 999999999999999999"), 413),
]

CODINGS = [
    refused("C07", post(b"Transfer-Encoding: identity\r\n", N), 501),
    refused("C08 empty", post(b"Transfer-Encoding:\r\n", N), 501),
    refused("C09", post(b"Transfer-Encoding: gzip, chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"), 501),
    refused("C09b chunked is not last", coded(b" chunked, gzip"), 501),
    refused("C09c chunked, identity", coded(b" chunked, identity"), 501),
    refused("C10a", coded(b" ,chunked"), 501),
    refused("C10b xchunked", coded(b" xchunked"), 501),
    refused("C10c", coded(b" chunked;q=1"), 501),
    refused("C10d", coded(b' "chunked"'), 501),
    refused("C10e VT", coded(b" \x0bchunked")),
    refused("C10f", post(TE + TE, EMPTY_THEN_N)),
    refused("C10g", post(b"Transfer-Encoding: ,chunked\r\n" + FIVE, EMPTY_THEN_N)),
    refused("C10h chunked,", coded(b" chunked,"), 501),
    refused("C10i twice in one field", coded(b" chunked, chunked"), 501),
    refused("C10j identity and chunked", post(b"Transfer-Encoding: identity\r\n" + TE, EMPTY_THEN_N)),
    refused("C10k CR", coded(b" chunked\r")),
    refused("C10l obs-text", coded(b" chunked\xa0"), 501),
    refused("C11 in 1.0", line(b"POST /p HTTP/1.0", H + TE) + b"0\r\n\r\n"),
    refused("C11b in 1.0 to GET", line(b"GET /p HTTP/1.0", H + TE) + b"0\r\n\r\n"),
    passes(
        "C28 capitals", post(b"TRANSFER-ENCODING: Chunked\r\n", b"0\r\n\r\n"), posted(body=b"", chunked=True)
    ),
    passes(
        "C28b white space",
        post(b"Transfer-Encoding:\tchunked \r\n", b"0\r\n\r\n"),
        posted(body=b"", chunked=True),
    ),
    # Dropped with its name (B15), so that there is no body; what follows is no request.
    Case(
        "C28c with _",
        post(b"Transfer_Encoding: chunked\r\n", b"0\r\n\r\n"),
        (200, 400),
        closes=True,
        forwarded=(posted(body=b""),),
    ),
]

SIZES = [
    bad_chunk("C12a", b"0x5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12b", b"+5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12c -5", b"-5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12d", b"0_5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12e", b" 5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12f SP behind", b"5 \r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12g", b"G\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12h", b"\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12i HTAB", b"\t5\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12j NUL", b"5\x00\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12k 5.0", b"5.0\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C12l h", b"5h\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C13 overflow", b"10000000000000005\r\nhello\r\n0\r\n\r\n" + N),
    bad_chunk("C13b many zeros", b"0" * 17 + b"5\r\nhello\r\n0\r\n\r\n" + N),
    hello("C13c zeros", b"0000000000000005\r\nhello\r\n00\r\n\r\n"),
    hello("C13d capitals", b"A\r\nhelloworld\r\na\r\n and again\r\n0\r\n\r\n", b"helloworld and again"),
    bad_chunk("C14", b"5\r\nhelloXX0\r\n\r\n" + N),
    bad_chunk("C14b longer than its size", b"5\r\nhello!\r\n0\r\n\r\n" + N),
    bad_chunk("C14c shorter", b"5\r\nhell\r\n0\r\n\r\n" + N),
    bad_chunk("C14d CR alone", b"5\r\nhello\rX0\r\n\r\n" + N),
    bad_chunk("C15", b"5\nhello\n0\n\n"),
    bad_chunk("C15b behind the data", b"5\r\nhello\n0\r\n\r\n"),
    bad_chunk("C15c behind the last size", b"5\r\nhello\r\n0\n\r\n"),
    bad_chunk("C15d the very last", b"5\r\nhello\r\n0\r\n\n"),
    hello("C27", b"5\r\nhello\r\n6\r\n world\r\n000\r\n\r\n", b"hello world"),
    hello(
        "C27b line ends as data",
        b"4\r\n\r\n\r\n\r\n7\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n",
        b"\r\n\r\n0\r\n\r\n\r\n",
    ),
]

EXTENSIONS = [
    bad_chunk("C16 long", b"5;" + b"a" * 4096 + b"\r\nhello\r\n0\r\n\r\n"),
    # RFC 9112 §7.1.1: a server ought to limit their total length, too.
    bad_chunk("C16b long together", (b"1;" + b"a" * 900 + b"\r\nx\r\n") * 20 + b"0\r\n\r\n"),
    bad_chunk("C17", b"2;\nxx\r\n4c\r\n0\r\n\r\n" + N),
    bad_chunk("C17b", b"2\r\r;a\r\n02\r\n41\r\n0\r\n\r\n"),
    bad_chunk("C17c LF in a string", b'5;a="\n"\r\nhello\r\n0\r\n\r\n'),
    bad_chunk("C17d CR in a string", b'5;a="\r"\r\nhello\r\n0\r\n\r\n'),
    bad_chunk("C17e CRLF in a string", b'5;a="\r\n"\r\nhello\r\n0\r\n\r\n'),
    bad_chunk("C17f no name", b"5;\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("C17g no name but a value", b"5;=a\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("C17h no value", b"5;a=\r\nhello\r\n0\r\n\r\n"),
    bad_chunk("C17i open string", b'5;a="b\r\nhello\r\n0\r\n\r\n'),
    bad_chunk("C17j NUL", b'5;a="\x00"\r\nhello\r\n0\r\n\r\n'),
    bad_chunk("C17k behind the last size", b"5\r\nhello\r\n0;\r\n\r\n"),
    bad_chunk("C17l comma", b"5,a\r\nhello\r\n0\r\n\r\n"),
    hello("C18", b'5;a=1;b="x y"\r\nhello\r\n0;z\r\n\r\n'),
    hello("C18b white space", b"5 ;\ta = b ; c\r\nhello\r\n0\t;z\r\n\r\n"),
    hello("C18c quoted pairs", b'5;a="\\"\\\\;\\\t\xc3\xa9"\r\nhello\r\n0\r\n\r\n'),
]

TRAILERS = [
    hello("C19", b"5\r\nhello\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\nAuthorization: Bearer evil\r\n\r\n"),
    hello("C19b", b"5\r\nhello\r\n0\r\nX-T: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"),
    hello(
        "C19c framing and routing", b"5\r\nhello\r\n0\r\n" + TE + b"Host: b.test\r\nConnection: close\r\n\r\n"
    ),
    bad_after("C20 SP in a name", b"0\r\nX T: 1\r\n\r\n"),
    bad_after("C20b SP before the colon", b"0\r\nX-T : 1\r\n\r\n"),
    bad_after("C20c folded", b"0\r\nX-T: 1\r\n 2\r\n\r\n"),
    bad_after("C20d SP first", b"0\r\n X-T: 1\r\n\r\n"),
    bad_after("C20e LF", b"0\r\nX-T: 1\n\r\n"),
    bad_after("C20f CR", b"0\r\nX-T: 1\r2\r\n\r\n"),
    bad_after("C20g NUL", b"0\r\nX-T: \x00\r\n\r\n"),
    bad_after("C20h no colon", b"0\r\nX-T\r\n\r\n"),
    bad_after("C20i long", b"0\r\nX-T: " + b"a" * 2000 + b"\r\n\r\n"),
    bad_after("C20j many", b"0\r\n" + b"X-T: 12345678\r\n" * 700 + b"\r\n"),
    bad_after("C20k a request", b"0\r\n" + N),
    hello("C20l some", b"5\r\nhello\r\n0\r\n" + b"X-T: 12345678\r\n" * 100 + b"\r\n"),
]


def cut(id: str, sent: bytes, begun: Forwarded) -> Case:
    """The client ends in the midst of it."""
    return Case(id, sent, (), closes=True, begun=begun, half_closes=True)


CUT = [
    cut("C21", CH + b"5\r\nhello\r\n", posted(chunked=True)),
    cut("C21b in a chunk", CH + b"5\r\nhel", posted(chunked=True)),
    cut("C21c in the last line end", CH + b"5\r\nhello\r\n0\r\n\r", posted(chunked=True)),
    cut("C21d in the trailers", CH + b"5\r\nhello\r\n0\r\nX-T: 1\r\n", posted(chunked=True)),
    cut("C21e in a length", post(b"Content-Length: 6\r\n"), posted(b"Content-Length: 6\r\n", b"hello!")),
    cut("C21f in the head", get()[:-2], GET),
    cut("C21g behind the head", CH, posted(chunked=True)),
]

ONE_AFTER_ANOTHER = [
    passes(
        "C22",
        line(b"GET /g HTTP/1.1", H + b"Content-Length: 40\r\n") + FORTY + get(),
        Forwarded(b"GET /g HTTP/1.1", b"Content-Length: 40\r\n", FORTY),
        GET,
    ),
    passes(
        "C22b DELETE",
        line(b"DELETE /g HTTP/1.1", H + b"Content-Length: 40\r\n") + FORTY + get(),
        Forwarded(b"DELETE /g HTTP/1.1", b"Content-Length: 40\r\n", FORTY),
        GET,
    ),
    replace(
        passes(
            "C22c HEAD",
            line(b"HEAD /g HTTP/1.1", H + b"Content-Length: 40\r\n") + FORTY + get(),
            Forwarded(b"HEAD /g HTTP/1.1", b"Content-Length: 40\r\n", FORTY),
            GET,
        ),
        methods=(b"HEAD", b"GET"),
    ),
    passes(
        "C22d chunked GET",
        line(b"GET /g HTTP/1.1", H + TE) + b"28\r\n" + FORTY + b"\r\n0\r\n\r\n" + get(),
        Forwarded(b"GET /g HTTP/1.1", b"", FORTY, chunked=True),
        GET,
    ),
    passes("C23 no length, no body", post(b"", b"") + get(), posted(body=b""), GET),
    passes(
        "C23b length 0",
        post(b"Content-Length: 0\r\n", b"") + get(),
        posted(b"Content-Length: 0\r\n", b""),
        GET,
    ),
    passes("C24", get(b"Connection: close\r\n") + N, GET, closes=True),
    passes("C24b capitals", get(b"CONNECTION: CLOSE\r\n") + N, GET, closes=True),
    passes("C24c in a list", get(b"Connection: foo ,\tClose\r\n") + N, GET, closes=True),
    passes(
        "C24d in the second field", get(b"Connection: foo\r\nConnection: close\r\n") + N, GET, closes=True
    ),
    passes("C24e against keep-alive", get(b"Connection: keep-alive, close\r\n") + N, GET, closes=True),
    passes("C24f behind a body", post(FIVE + b"Connection: close\r\n") + N, posted(FIVE), closes=True),
    passes(
        "C24g behind chunks",
        post(TE + b"Connection: close\r\n", b"5\r\nhello\r\n0\r\n\r\n") + N,
        posted(chunked=True),
        closes=True,
    ),
    passes("C24h another word", get(b"Connection: closed\r\nClosed: 1\r\n") + get(), GET, GET),
    answered_here(
        "C24i keep-alive", line(b"OPTIONS * HTTP/1.1", H + b"Connection: keep-alive\r\n") + get(), GET
    ),
    # RFC 9112 §9.3: a proxy keeps no connection to an HTTP/1.0 client, whatever it asks for.
    passes(
        "C24j 1.0",
        line(b"GET / HTTP/1.0", H + b"Connection: keep-alive\r\n") + N,
        Forwarded(via=b"1.0 switchyard"),
        closes=True,
    ),
    passes(
        "C24k 1.0 with a body",
        line(b"POST /p HTTP/1.0", H + FIVE) + b"hello" + N,
        Forwarded(b"POST /p HTTP/1.1", FIVE, b"hello", via=b"1.0 switchyard"),
        closes=True,
    ),
    passes(
        "C25",
        b"".join(b"GET /%d HTTP/1.1\r\n%b\r\n" % (i, H) for i in (1, 2, 3)),
        *(Forwarded(b"GET /%d HTTP/1.1" % i) for i in (1, 2, 3)),
    ),
    Case("C25b a bad one behind", get() + get(b"X : 1\r\n") + N, (200, 400), closes=True, forwarded=(GET,)),
    replace(
        passes(
            "C25c HEAD between",
            get() + line(b"HEAD / HTTP/1.1") + get(),
            GET,
            Forwarded(b"HEAD / HTTP/1.1"),
            GET,
        ),
        methods=(b"GET", b"HEAD", b"GET"),
    ),
    replace(refused("C25d bad HEAD", line(b"HEAD /a b HTTP/1.1")), methods=(b"HEAD",)),
    passes("C26 a length, then the next", post(FIVE) + get(), posted(FIVE), GET),
    passes(
        "C26b chunks, then the next",
        CH + b"5\r\nhello\r\n0\r\n\r\n" + get(),
        posted(chunked=True),
        GET,
    ),
]

FRAMING = LENGTHS + CODINGS + SIZES + EXTENSIONS + TRAILERS + CUT + ONE_AFTER_ANOTHER
