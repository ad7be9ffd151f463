"""Request heads that came on another connection are known by their bytes."""

import pytest

from routing.http import client_connection
from routing.http.known_heads import KnownHeads
from routing.http.request_head import RequestHead
from routing.http.request_parser import parse_request_head
from tests.routing.http.test_client_connection import run

HEAD = b"GET /%d HTTP/1.1\r\nHost: a.test\r\n\r\n"


def test_the_same_head_on_another_connection_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def parse(data: bytes, start: int, end: int, limits: object) -> RequestHead:
        read.append(data[start : end + 4])
        return parse_request_head(data, start, end, limits)  # type: ignore[arg-type]

    monkeypatch.setattr(client_connection, "parse_request_head", parse)
    kept = KnownHeads()
    monkeypatch.setattr("tests.routing.http.test_client_connection.KnownHeads", lambda: kept)
    assert run([HEAD % 1]) == run([HEAD % 1])
    assert read == [HEAD % 1]
    kept.clear()
    run([HEAD % 1])
    run([HEAD % 2, HEAD % 1])
    assert read == [HEAD % 1, HEAD % 1, HEAD % 2]


def test_it_is_bounded() -> None:
    kept = KnownHeads()
    for number in range(1000):
        kept.keep(HEAD % number, RequestHead(b"GET", b"/%d" % number, 1))
    found = [number for number in range(1000) if kept.find(HEAD % number) is not None]
    assert 0 < len(found) <= 64
    assert found[-1] == 999


def test_a_long_head_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KnownHeads()
    monkeypatch.setattr("tests.routing.http.test_client_connection.KnownHeads", lambda: kept)
    long = HEAD[:-2] % 1 + b"A: " + b"a" * 5000 + b"\r\n\r\n"
    heard, refusals, _, _ = run([long])
    assert (len(heard), refusals) == (1, [])
    assert kept.find(long) is None
