"""Addresses to listen on."""

import pytest

from routing.master.listeners import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", Address("127.0.0.1", 80)),
        ("[::1]:8080", Address("::1", 8080)),
        ("proxy:0", Address("proxy", 0)),
    ],
)
def test_an_address_is_read_and_printed_the_same(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected
    assert str(expected) == text
