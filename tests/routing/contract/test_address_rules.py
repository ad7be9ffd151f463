"""The lists of networks, names and ports in the environment, and what a wrong entry is answered with."""

import re

import pytest

from routing.contract.address_rules import OwnPort, from_environment, read_networks, read_ports

PORT = "a port of Switchyard (SWITCHYARD_OWN_PORTS)"


def test_lists_are_read_into_one_form() -> None:
    networks = read_networks(" 10.0.0.0/8, 10.1.2.3,fd00::/8 ,[FD00::1],, Metadata.Internal. ")
    assert networks == ("10.0.0.0/8", "10.1.2.3/32", "fd00::/8", "fd00::1/128", "metadata.internal")
    ports = read_ports("8081, 9464-9466, 10.0.0.5:80-81, [FD00::1]:81, Web1.:8000")
    assert [(one.host, one.port) for one in ports] == [
        ("", 8081),
        ("", 9464),
        ("", 9465),
        ("", 9466),
        ("10.0.0.5", 80),
        ("10.0.0.5", 81),
        ("fd00::1", 81),
        ("web1", 8000),
    ]
    assert read_networks("") == ()
    assert read_ports(" , ") == ()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("10.0.0.1/8", '"10.0.0.1/8" is not a network: write 10.0.0.0/8, or one address'),
        ("10.0.0.0/33", '"10.0.0.0/33" is no network (10.0.0.0/8, fd00::/8), no IP address and no host name'),
        ("0x7f.1", '"0x7f.1" is no network'),
        ("http://a", '"http://a" is no network'),
        ("a b", '"a b" is no network'),
    ],
)
def test_a_wrong_network_is_answered_with_the_cure(entry: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        read_networks(f"10.0.0.0/8,{entry}")


@pytest.mark.parametrize(
    "entry",
    ["0", "65536", "9-8", "1-65536", "x", "a:0", "a:b", "http://a:1", "1.2.3:4", "[::1]", "[x]:1", "::1:2"],
)
def test_a_wrong_port_is_answered_with_the_cure(entry: str) -> None:
    with pytest.raises(ValueError, match=f'^"{re.escape(entry)}" is no port: write 8081, 9464-9467'):
        read_ports(entry)


def test_the_variable_is_named() -> None:
    rules = from_environment({"SWITCHYARD_DENIED_ADDRESSES": "10.0.0.0/8", "SWITCHYARD_OWN_PORTS": "1"})
    assert (rules.allowed, rules.denied, rules.own) == ((), ("10.0.0.0/8",), (OwnPort(1, PORT),))
    with pytest.raises(ValueError, match=r'^SWITCHYARD_ALLOWED_ADDRESSES: "1\.2" is no network'):
        from_environment({"SWITCHYARD_ALLOWED_ADDRESSES": "1.2"})
