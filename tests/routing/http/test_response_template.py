"""Response templates recognise what the parser would read alike, and nothing else."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from routing.http import response_template
from routing.http.errors import BadResponse
from routing.http.response_head import ResponseHead, parse_response_head
from routing.http.response_template import ResponseTemplate, template_of

VLLM = (
    b"HTTP/1.1 200 OK\r\ndate: Wed, 25 Nov 2026 16:00:%02d GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\n"
    b"content-type: application/json\r\n\r\n"
)
LLAMA = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Keep-Alive: timeout=5, max=100\r\nX-Part: 100%%b\r\nServer: llama.cpp\r\n\r\n"
)
UNDATED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nServer: llama.cpp\r\n\r\n"


@pytest.fixture(autouse=True)
def _nothing_met_before() -> None:
    response_template._patterns.clear()


def template(text: bytes) -> ResponseTemplate:
    assert template_of(text) is None
    found = template_of(text)
    assert found is not None
    return found


def read_alike(head: ResponseHead, parsed: ResponseHead) -> bool:
    fields = (name for name in ResponseHead.__slots__ if not name.startswith("_"))
    return all(getattr(head, name) == getattr(parsed, name) for name in fields)


@pytest.mark.parametrize("number", range(3))
def test_another_length_and_second(number: int) -> None:
    known = template(VLLM % (1, 5))
    body = b"x" * 10**number
    text = VLLM % (number + 7, len(body))
    assert known.recognise(text + body) == len(text)
    assert read_alike(known.head, parse_response_head(text, 0)[0])


def test_an_undated_one_is_dated_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routing.http.dates.time", lambda: 1e9)
    known = template(UNDATED % 5)
    for second in (1e9, 1e9, 1e9 + 1):
        monkeypatch.setattr("routing.http.dates.time", lambda now=second: now)
        text = UNDATED % 12
        assert known.recognise(text + b"x" * 12) == len(text)
        assert read_alike(known.head, parse_response_head(text, 0)[0])


@pytest.mark.parametrize(
    "text",
    [
        (VLLM % (1, 5)).replace(b"200 OK", b"201 OK"),
        (VLLM % (1, 5)).replace(b"length: 5", b"length: +5"),
        (VLLM % (1, 5)).replace(b"length: 5", b"length: "),
        (VLLM % (1, 5)).replace(b"length: 5", b"length: 5, 5"),
        (VLLM % (1, 5)).replace(b" GMT", b"\r\nA:"),
        (VLLM % (1, 5)).replace(b" GMT", b" GM\n"),
        (VLLM % (1, 5)).replace(b" GMT", b" GMT+"),
        (VLLM % (1, 5)).replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        (VLLM % (1, 4)),
        (VLLM % (1, 6)),
    ],
)
def test_any_other_is_for_the_parser(text: bytes) -> None:
    assert template(VLLM % (1, 5)).recognise(text + b"hello") == 0


_FIELDS = st.lists(
    st.sampled_from(
        [
            b"date: ",
            b"x: 1%b",
            b"Connection: x",
            b"Keep-Alive: 5",
            b"Date: " + b"y" * 29,
            b"A:",
            b"x" * 40 + b":",
        ]
    ),
    max_size=3,
)


@given(
    _FIELDS,
    _FIELDS,
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(list(b"\r\n:; 07aZ\0\x7f"))), max_size=3),
)
def test_what_is_recognised_the_parser_reads_alike(
    before: list[bytes], after: list[bytes], changes: list[tuple[int, int]]
) -> None:
    response_template._patterns.clear()
    text = b"\r\n".join([b"HTTP/1.1 200 OK", *before, b"Content-Length: 5", *after, b"", b""])
    try:
        parsed, _ = parse_response_head(text, 0)
    except BadResponse:
        return
    assume(parsed.plain)
    known = template(text)
    changed = bytearray(text)
    for at, byte in changes:
        changed[at % len(text)] = byte
    again = bytes(changed)
    length = re.search(rb"Content-Length: ([0-9]++)\r", again)
    body = b"x" * (int(length[1]) if length is not None and len(length[1]) < 4 else 5)
    if begin := known.recognise(again + body):
        head, position = parse_response_head(again + body, 0)
        assert begin == position
        assert read_alike(known.head, head)


def test_heads_that_never_come_again_are_not_compiled() -> None:
    for number in range(1000):
        assert template_of(b"HTTP/1.1 200 OK\r\nX-Id: %d\r\nContent-Length: 1\r\n\r\n" % number) is None
    assert len(response_template._patterns) <= 256
    assert not any(response_template._patterns.values())


def test_what_is_for_this_hop_alone_is_cut_each_time() -> None:
    text, known = LLAMA % 71, template(LLAMA % 5)
    assert known.recognise(text + b"x" * 71) == len(text)
    assert read_alike(known.head, parse_response_head(text, 0)[0])
    assert b"Keep-Alive" not in known.head.block


def test_a_date_that_is_for_this_hop_alone_is_for_the_parser() -> None:
    text = (VLLM % (1, 5)).replace(b"server: uvicorn", b"connection: date")
    assert [template_of(text) for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("date", [b"Wed, 25 Nov 2026 16:00:00 G%T", b"%" * 29])
def test_a_date_may_have_percent_signs(date: bytes) -> None:
    text = b"HTTP/1.1 200 OK\r\nDate: %b\r\nKeep-Alive: t\r\nX: 5%%\r\nContent-Length: 2\r\n\r\n"
    found = template(text % date)
    again = text % date.replace(b"W", b"T")
    assert found.recognise(again + b"ok") == len(again)
    assert read_alike(found.head, parse_response_head(again, 0)[0])
    longer = text % (b"x" + date)
    assert found.recognise(longer + b"ok") == 0
