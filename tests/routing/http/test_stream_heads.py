"""Stream heads are known again by their bytes, and read as they would be anew."""

from collections.abc import Iterator

import pytest

from routing.http import stream_heads
from routing.http.response_head import ResponseHead, parse_response_head

VLLM = (
    b"HTTP/1.1 200 OK\r\ndate: Wed, 25 Nov 2026 16:00:%02d GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
UNDATED = b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    stream_heads._known.clear()
    yield
    stream_heads._known.clear()


def read(text: bytes) -> ResponseHead:
    head, _ = parse_response_head(text, 0)
    stream_heads.keep(text, head)
    return head


def test_the_same_bytes_are_read_once() -> None:
    head = read(VLLM % 1)
    assert stream_heads.known_head(VLLM % 1) is head
    assert stream_heads.known_head(VLLM % 2) is None


@pytest.mark.parametrize("second", [1e9, 1e9 + 1])
def test_an_undated_one_is_dated_each_time(monkeypatch: pytest.MonkeyPatch, second: float) -> None:
    monkeypatch.setattr("routing.http.dates.time", lambda: 1e9)
    read(UNDATED)
    monkeypatch.setattr("routing.http.dates.time", lambda: second)
    again = stream_heads.known_head(UNDATED)
    assert again is not None
    assert again.block == parse_response_head(UNDATED, 0)[0].block


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nDate: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nendpoint-load-metrics: TEXT cpu=1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 4096 + b"\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_others_are_not_kept(text: bytes) -> None:
    read(text)
    assert stream_heads.known_head(text) is None


def test_no_more_are_kept_than_a_few() -> None:
    for number in range(1000):
        read(UNDATED.replace(b"llama", b"%d" % number))
    assert len(stream_heads._known) <= 64
