"""The addresses of a host name: each once, in the system's order; errors are the system's."""

import socket
from typing import Any

import pytest

from routing.contract.host_addresses import host_addresses


def test_each_address_comes_once_in_the_order_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*given: Any, **named: Any) -> list[Any]:
        assert (given, named) == (("a.example", None), {"type": socket.SOCK_STREAM})
        return [(None, None, 0, "", (address, 0)) for address in ("2001:db8::1", "192.0.2.1", "2001:db8::1")]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert host_addresses("a.example") == ("2001:db8::1", "192.0.2.1")


def test_a_name_that_cannot_be_encoded() -> None:
    with pytest.raises(UnicodeError):
        host_addresses("a" * 64 + ".example")
