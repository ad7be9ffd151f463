"""Addresses to listen on."""

import pytest

from routing.master.listeners import BindAddress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:80", BindAddress("127.0.0.1", 80)),
        ("[::1]:8080", BindAddress("::1", 8080)),
        ("proxy:0", BindAddress("proxy", 0)),
    ],
)
def test_an_address_is_read_and_printed_the_same(text: str, expected: BindAddress) -> None:
    assert BindAddress.parse(text) == expected
    assert str(expected) == text
