"""What Retry-After says, in seconds."""

from email.utils import formatdate
from time import time

import pytest

from routing.http.response_head import parse_response_head
from routing.http.retry_after import seconds_of


def test_seconds() -> None:
    assert seconds_of(b"7") == 7.0
    assert seconds_of(b"0") == 0.0


def test_a_date() -> None:
    said = formatdate(time() + 30, usegmt=True).lower().encode()
    assert 28 <= seconds_of(said) <= 31
    assert seconds_of(formatdate(time() - 30, usegmt=True).lower().encode()) == 0.0


@pytest.mark.parametrize("value", [b"", b"soon", b"-1", b"1.5", b"\xff"])
def test_nonsense_asks_for_nothing(value: bytes) -> None:
    assert seconds_of(value) == 0.0


def test_a_head_has_it() -> None:
    text = b"HTTP/1.1 503 Busy\r\n%bContent-Length: 0\r\n\r\n"
    assert parse_response_head(text % b"Retry-After: 7\r\n", 0)[0].retry_after_s == 7.0
    assert parse_response_head(text % b"", 0)[0].retry_after_s < 0
