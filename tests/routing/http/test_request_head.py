"""Request heads: both ways of reading them agree, and what is forwarded is byte for byte what came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.http import request_parser
from routing.http.errors import RequestRefused
from routing.http.forwarded_fields import ForwardedFields
from routing.http.limits import ConnectionLimits
from routing.http.request_head import RequestHead
from routing.http.request_parser import parse_request_head

LIMITS = ConnectionLimits()


def parse(head: bytes, limits: ConnectionLimits = LIMITS) -> RequestHead:
    assert head.endswith(b"\r\n\r\n")
    return parse_request_head(head, 0, head.find(b"\r\n\r\n"), limits)


def line_by_line(head: bytes) -> RequestHead:
    return request_parser._parse_line_by_line(head[:-4], LIMITS)


def what(head: RequestHead) -> dict[str, object]:
    found = {name: getattr(head, name) for name in RequestHead.__slots__}
    if (forwarded := head.forwarded) is not None:
        found["forwarded"] = {name: getattr(forwarded, name) for name in ForwardedFields.__slots__}
    return found


def outcome(read: object, head: bytes) -> object:
    try:
        return what(read(head))  # type: ignore[operator]
    except RequestRefused as error:
        return error.status, error.code


FIELDS = [
    b"Host: a.test",
    b"host: b.test:81",
    b"Host:[::1]",
    b"Content-Length: 5",
    b"Content-Length:5 ",
    b"content-length: x",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Connection: keep-alive, X-A",
    b"X-A: 1",
    b"X-A:",
    b"Accept: */*",
    b"Via: 1.0 fred",
    b"X-Forwarded-For: 1.2.3.4",
    b"X-Request-Id: abc",
    b"Expect: 100-continue",
    b"Content-Type: application/json",
    b"Authorization: Bearer \xc3\xa9",
    b"Bad Name: 1",
    b"folded",
    b" leading: 1",
]


@given(
    st.sampled_from([b"GET", b"POST", b"OPTIONS", b"TRACE"]),
    st.sampled_from([b"/", b"/v1/x?y=%20", b"/a b", b"/a#b"]),
    st.lists(st.sampled_from(FIELDS), max_size=6),
)
def test_both_ways_agree(method: bytes, target: bytes, fields: list[bytes]) -> None:
    """The one-pattern way accepts nothing that the careful way refuses, and reads it alike."""
    head = b"\r\n".join([b"%b %b HTTP/1.1" % (method, target), *fields]) + b"\r\n\r\n"
    assert outcome(parse, head) == outcome(line_by_line, head)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(noise: bytes) -> None:
    """Nothing but a refusal is ever raised, and what is accepted holds no line of its own."""
    noise = noise.replace(b"\r\n\r\n", b"")
    head = b"GET / HTTP/1.1\r\nHost: a.test\r\n" + noise + b"\r\n\r\n"
    end = head.find(b"\r\n\r\n")
    try:
        read = parse_request_head(head, 0, end, LIMITS)
    except RequestRefused:
        return
    assert b"\n" not in read.fields.replace(b"\r\n", b"")
    assert b"\r" not in read.fields.replace(b"\r\n", b"")
    assert b"\x00" not in read.fields


def test_unusual_head_is_read_alike() -> None:
    read = parse(b"POST /x HTTP/1.1\r\nAccept: */*\r\nHost: a.test\r\nContent-Length: 5\r\nX-A: 1\r\n\r\n")
    assert read.fields == b"\r\nAccept: */*\r\nContent-Length: 5\r\nX-A: 1"
    assert (read.content_length, read.keep_alive, read.chunked, read.plain) == (5, True, False, True)


def test_at_an_offset() -> None:
    data = b"garbageGET /x HTTP/1.1\r\nHost: a.test\r\nA: 1\r\n\r\nmore"
    read = parse_request_head(data, 7, data.find(b"\r\n\r\n"), LIMITS)
    assert (read.method, read.target, read.fields) == (b"GET", b"/x", b"\r\nA: 1")


@pytest.mark.parametrize(
    ("fields", "forwarded"),
    [
        (b"A: 1\r\nConnection: keep-alive\r\nB: 2", b"\r\nA: 1\r\nB: 2"),
        (b"Connection: b\r\nA: 1\r\nB: 2\r\nb: 3", b"\r\nA: 1"),
        (b"Connection: close, \r\nA:  two  ", b"\r\nA:  two  "),
        (b"X-Forwarded-Proto: https\r\nA: 1", b"\r\nA: 1"),
        (b"x-switchyard-fleet: f\r\nA: 1", b"\r\nA: 1"),
        (b"X-Switchyard-Work: 2.5 \r\nA: 1", b"\r\nA: 1"),
        (b"Hostile: 1\r\nViaduct: 2\r\nTerse: 3\r\nExpectation: 4", None),
    ],
)
def test_what_is_forwarded(fields: bytes, forwarded: bytes | None) -> None:
    read = parse(b"GET / HTTP/1.1\r\nHost: a.test\r\n" + fields + b"\r\n\r\n")
    assert read.fields == (b"\r\n" + fields if forwarded is None else forwarded)


@pytest.mark.parametrize(
    ("head", "host"),
    [
        (b"GET / HTTP/1.1\r\nHost: A.test:81\r\n\r\n", b"A.test:81"),
        (b"GET / HTTP/1.1\r\nAccept: */*\r\nhOST:  A.test:81 \r\n\r\n", b"A.test:81"),
        (b"GET http://b.test:1/x HTTP/1.1\r\nHost: A.test\r\n\r\n", b"b.test:1"),
        (b"GET / HTTP/1.0\r\n\r\n", b""),
        (b"GET / HTTP/1.0\r\nHost: [::1]:80\r\n\r\n", b"[::1]:80"),
    ],
)
def test_whom_the_client_speaks_to(head: bytes, host: bytes) -> None:
    assert parse(head).host == host
    assert b"test" not in parse(head).fields


def test_what_is_taken_note_of() -> None:
    read = parse(
        b"OPTIONS / HTTP/1.1\r\nHost: a.test\r\nVia: 1.1 a\r\nVia: 1.1 b\r\nX-Forwarded-For: 1.1.1.1\r\n"
        b"X-Request-Id: id-1\r\nMax-Forwards: 7\r\nX-Switchyard-Fleet: chat\r\nExpect: 100-Continue\r\n\r\n"
    )
    assert (read.via, read.request_id) == (b"1.1 a, 1.1 b", b"id-1")
    assert read.forwarded is not None
    assert read.forwarded.chain == b"1.1.1.1"
    assert (read.max_forwards, read.fleet, read.expects_continue) == (7, b"chat", True)
    assert (read.fields, read.plain) == (b"", False)


@pytest.mark.parametrize("value", [b"", b"a b", b"x" * 129, b"\xc3\xa9"])
def test_unusable_request_ids_are_dropped(value: bytes) -> None:
    read = parse(b"GET / HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: " + value + b"\r\n\r\n")
    assert (read.request_id, read.fields) == (None, b"")


TRACE = b"0af7651916cd43dd8448eb211c80319c"
SPAN = b"b7ad6b7169203331"


@pytest.mark.parametrize(
    "value",
    [
        b"00-" + TRACE + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + SPAN + b"-fe",
        b"cc-" + TRACE + b"-" + SPAN + b"-01",
        b"cc-" + TRACE + b"-" + SPAN + b"-01-what-will-be",
    ],
)
def test_a_trace_is_passed_on(value: bytes) -> None:
    fields = b"\r\nTraceparent:  " + value + b" \r\nTracestate: a=1"
    read = parse(b"GET / HTTP/1.1\r\nHost: a.test" + fields + b"\r\n\r\n")
    assert (read.trace, read.fields) == (value, fields)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00-" + TRACE + b"-" + SPAN,
        b"00-" + TRACE + b"-" + SPAN + b"-01-more",
        b"00-" + TRACE + b"-" + SPAN + b"-0",
        b"00-" + TRACE + b"-" + SPAN + b"-01x",
        b"ff-" + TRACE + b"-" + SPAN + b"-01",
        b"cc-" + TRACE + b"-" + SPAN + b"-01.more",
        b"00-" + TRACE.upper() + b"-" + SPAN + b"-01",
        b"00-" + b"0" * 32 + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + b"0" * 16 + b"-01",
        b"00-" + TRACE + b"-" + SPAN + b"-01\r\nTraceparent: 00-" + TRACE + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + SPAN + b"-01\r\nConnection: traceparent, tracestate",
    ],
)
def test_a_trace_that_is_not_valid_is_dropped(value: bytes) -> None:
    fields = b"Tracestate: a=1\r\nTraceparent: " + value + b"\r\nTracestate: b=2\r\nA: b"
    read = parse(b"GET / HTTP/1.1\r\nHost: a.test\r\n" + fields + b"\r\n\r\n")
    assert (read.trace, read.fields) == (None, b"\r\nA: b")


def test_limits() -> None:
    small = ConnectionLimits(max_target=10, max_head=200, max_fields=3)
    for head, status in (
        (b"GET /aaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: a.test\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a.test\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a.test\r\nA: " + b"x" * 200 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 200 + b" HTTP/1.1\r\nHost: a.test\r\n\r\n", 414),
    ):
        with pytest.raises(RequestRefused) as refused:
            parse(head, small)
        assert refused.value.status == status


def test_matching_takes_linear_time() -> None:
    """No input makes the patterns backtrack: a head of the largest size is read in milliseconds."""
    import time

    for filler in (b"a" * 60_000, b"a:" * 30_000, b"\t" * 60_000, b", " * 30_000, b"A: 1\r\n" * 9_000 + b"x"):
        head = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: " + filler + b"\r\n\r\n"
        started = time.process_time()
        outcome(parse, head)
        assert time.process_time() - started < 0.5
