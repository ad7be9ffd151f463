"""Whose word is taken for a client's address."""

import pytest

from routing.contract import trusted_proxies
from routing.contract.trusted_proxies import TrustedProxies, client_group, forwarded_for, node_address

TRUSTED = TrustedProxies(trusted_proxies.read("10.0.0.0/8, fd00::/8, unix"))


@pytest.mark.parametrize(
    ("peer", "list_", "client"),
    [
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "203.0.113.9, 198.51.100.7, 10.2.3.4", "198.51.100.7"),
        ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
        ("unix", "198.51.100.7", "198.51.100.7"),
        ("fd00::1", '"[2001:db8::7]:4711"', "2001:db8::7"),
        ("10.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", "10.0.0.2"),
    ],
)
def test_the_rightmost_address_that_is_no_trusted_proxy_is_the_client(
    peer: str, list_: str, client: str
) -> None:
    assert TRUSTED.client(peer, list_) == client


def test_nobody_is_trusted_unless_named() -> None:
    nobody = TrustedProxies()
    assert not nobody
    assert not nobody.is_trusted("127.0.0.1")
    assert not nobody.is_trusted("unix")
    assert nobody.client("127.0.0.1", "198.51.100.7") == "127.0.0.1"


def test_a_mapped_network_is_that_of_ipv4() -> None:
    assert trusted_proxies.read("::ffff:10.0.0.0/104") == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("text", "words"),
    [("10.0.0.1/8", "write 10.0.0.0/8"), ("proxy.example.com", "no network"), ("*", "no network")],
)
def test_what_is_no_network_is_refused_with_the_cure(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        trusted_proxies.read(text)


def test_forwarded_gives_the_list_of_its_hops() -> None:
    field = 'for=192.0.2.43, For="[2001:db8::1]:80";proto=https'
    assert forwarded_for(field) == '192.0.2.43,"[2001:db8::1]:80"'
    assert node_address('"[2001:db8::1]:80"') == "2001:db8::1"
    assert node_address("_hidden") == ""


def test_one_ipv6_subscriber_is_one_client() -> None:
    assert client_group("2001:db8::1") == client_group("2001:db8::ffff:2") == "2001:db8::/64"
    assert client_group("::ffff:192.0.2.1") == "192.0.2.1"
    assert client_group("unix") == "unix"
