"""Response heads: what is cut, what frames the body, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.http.errors import BadResponse
from routing.http.response_head import ResponseHead, parse_response_head
from tests.routing.proxy.rig import undated


def parse(head: bytes) -> ResponseHead:
    read, position = parse_response_head(head, 0)
    assert position == len(head)
    return read


def test_usual_head_is_forwarded_as_it_came() -> None:
    read = parse(b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length:  2 \r\nDate: now\r\n\r\n")
    assert read.block == b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length:  2 \r\nDate: now"
    assert (read.status, read.content_length, read.keep_alive, read.plain) == (200, 2, True, True)


@pytest.mark.parametrize(
    ("head", "dated"), [(b"200 OK", True), (b"404 ", True), (b"500 ", True), (b"103 ", False)]
)
def test_an_answer_without_date_gets_the_present_one(head: bytes, dated: bool) -> None:
    read = parse(b"HTTP/1.1 " + head + b"\r\nContent-Length: 0\r\nX-Date: 1\r\n\r\n")
    assert read.undated == dated == (b"\r\nDate: " in read.block) == (undated(read.block) != read.block)
    assert not parse(b"HTTP/1.1 " + head + b"\r\ndate: Thu\r\nContent-Length: 0\r\n\r\n").undated


def test_no_fields() -> None:
    read = parse(b"HTTP/1.1 200 \r\n\r\n")
    assert (undated(read.block), read.content_length, read.plain) == (b"HTTP/1.1 200 ", -1, False)


def test_hop_fields_are_cut() -> None:
    read = parse(
        b"HTTP/1.0 200 Fine\r\nConnection: close, X-Sec\r\nX-Sec: 1\r\nKeep-Alive: 5\r\nA: 1\r\n"
        b"X-Request-Id: z\r\nContent-Length: 3\r\nUpgrade: h2c\r\nRetry-After: 4\r\n\r\n"
    )
    assert undated(read.block) == b"HTTP/1.1 200 Fine\r\nA: 1\r\nContent-Length: 3\r\nRetry-After: 4"
    assert (read.keep_alive, read.retry_after, read.content_length) == (False, True, 3)


@pytest.mark.parametrize(
    ("version", "connection", "kept"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: keep-alive\r\n", True),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_persistence(version: bytes, connection: bytes, kept: bool) -> None:
    head = b"HTTP/%b 200 OK\r\n%bContent-Length: 0\r\n\r\n" % (version, connection)
    assert parse(head).keep_alive == kept


def test_statuses_without_a_body() -> None:
    for status in (b"204", b"103"):
        read = parse(b"HTTP/1.1 " + status + b" X\r\nContent-Length: 5\r\nA: 1\r\n\r\n")
        assert (undated(read.block), read.plain) == (b"HTTP/1.1 " + status + b" X\r\nA: 1", False)
    read = parse(b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n")
    assert (b"Content-Length: 5" in read.block, read.plain) == (True, False)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n A: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: 1\nB: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    ],
)
def test_refused(head: bytes) -> None:
    with pytest.raises(BadResponse):
        parse(head)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_read_or_refused(noise: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nA: 1\r\n" + noise + b"\r\n\r\n"
    try:
        read, _ = parse_response_head(head, 0)
    except BadResponse:
        return
    left = read.block.replace(b"\r\n", b"")
    assert not {0, 10, 13} & set(left)
