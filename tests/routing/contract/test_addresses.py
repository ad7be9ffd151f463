"""Which base URLs a replica may have, how they are written, and what a wrong one is answered with."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.addresses import BaseUrl, normalise_url, parse_base_url


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("http://10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000"),
        ("HTTP://Node-1.Example.COM", "http://node-1.example.com:80"),
        ("http://node:8000/v1//", "http://node:8000/v1"),
        ("http://node:08000/a/b%2Fc/", "http://node:8000/a/b%2Fc"),
        ("http://my_service:1", "http://my_service:1"),
        ("http://svc.ns.svc.cluster.local.:80", "http://svc.ns.svc.cluster.local.:80"),
        ("http://[::1]:9000/x", "http://[::1]:9000/x"),
        ("http://[FD00:0::1]", "http://[fd00::1]:80"),
        ("http://localhost:65535", "http://localhost:65535"),
        ("http://192.168.1.1", "http://192.168.1.1:80"),
        ("HTTPS://Node", "https://node:443"),
        ("https://10.0.0.1:8443/base/", "https://10.0.0.1:8443/base"),
    ],
)
def test_each_url_has_one_normal_form(text: str, normal: str) -> None:
    assert normalise_url(text) == normal
    assert normalise_url(normal) == normal


@pytest.mark.parametrize("port", ["000095039", "0000000", "65536", "9" * 400])
def test_a_port_is_checked_as_it_is_kept(port: str) -> None:
    with pytest.raises(ValueError, match="is not a port"):
        normalise_url(f"http://node:{port}")


@given(
    st.from_regex(
        r"http://(a|\[::1\]|[0-9.]{7,12})(:0{0,6}[0-9]{1,8})?(/[a-z%.0-9]{0,5}){0,2}", fullmatch=True
    )
)
def test_a_normal_form_is_its_own(text: str) -> None:
    try:
        normal = normalise_url(text)
    except ValueError:
        return
    assert normalise_url(normal) == normal


def test_a_url_comes_apart() -> None:
    assert parse_base_url("http://[::1]:9000/base") == BaseUrl("::1", 9000, "/base")
    assert parse_base_url("http://[::1]:9000/base").authority == "[::1]:9000"
    assert parse_base_url("http://node").authority == "node:80"
    assert parse_base_url("https://node") == BaseUrl("node", 443, "", "https")


def test_a_host_field_has_no_usual_port_of_https() -> None:
    urls = ("http://node", "https://node", "https://[::1]", "https://node:8443")
    assert [parse_base_url(url).host_field for url in urls] == ["node:80", "node", "[::1]", "node:8443"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the URL is empty: write http://host:port"),
        ("10.0.0.1:8000", '"10.0.0.1:8000" is not a URL: write http://host:port'),
        ("ftp://h", 'the scheme "ftp" is not supported: write http://host:port or https://host:port'),
        ("https://", "the host is missing: write http://host:port"),
        ("http://", "the host is missing: write http://host:port"),
        ("http://:80", "the host is missing: write http://host:port"),
        ("http:///path", "the host is missing: write http://host:port"),
        ("http://u:p@h", "a base URL holds no user name or password: remove everything up to the @"),
        ("http://h?x=1", 'a base URL has no query: remove everything from "?" on'),
        ("http://h/p#top", 'a base URL has no fragment: remove everything from "#" on'),
        ("http://h p", "the URL holds a space or line break: remove it"),
        ("http://h\n", "the URL holds a space or line break: remove it"),
        ("http://h\x00", "the URL holds a control character or backslash: remove it"),
        ("http://h\\evil", "the URL holds a control character or backslash: remove it"),
        ("http://h:", '"" is not a port: write a number from 1 to 65535'),
        ("http://h:0", '"0" is not a port: write a number from 1 to 65535'),
        ("http://h:65536", '"65536" is not a port: write a number from 1 to 65535'),
        ("http://h:8o", '"8o" is not a port: write a number from 1 to 65535'),
        ("http://h:٨٠", '"٨٠" is not a port: write a number from 1 to 65535'),
        ("http://h:" + "9" * 100, f'"{"9" * 100}" is not a port: write a number from 1 to 65535'),
        ("http://::1", "put brackets around an IPv6 address: write http://[::1]"),
        ("http://[::1", 'the "[" in "[::1" is not closed: write http://[::1]:8000'),
        ("http://[10.0.0.1]", '"10.0.0.1" is not an IPv6 address: write an address as in [::1]'),
        ("http://[fd00::1%25eth0]", '"fd00::1%25eth0" is not an IPv6 address: write an address as in [::1]'),
        ("http://bad!host", '"bad!host" is not a host name: use letters, digits, hyphens and dots'),
        ("http://a..b", '"a..b" is not a host name: use letters, digits, hyphens and dots'),
        ("http://-a", '"-a" is not a host name: use letters, digits, hyphens and dots'),
        ("http://bücher", 'the host "bücher" is not ASCII: write its xn-- form'),
        ("http://1.2.3", '"1.2.3" is not an IPv4 address: write four numbers from 0 to 255, as in 10.0.0.1'),
        ("http://h/a//b", 'the path holds "//": remove the empty part'),
        ("http://h/../x", 'the path holds "." or "..": write the path it leads to'),
        ("http://h/%2e%2E/x", 'the path holds "." or "..": write the path it leads to'),
        ("http://h/a%zz", 'the path part "a%zz" holds a character that must be percent-encoded'),
        ("http://h/é", 'the path part "é" holds a character that must be percent-encoded'),
        ("http://h/" + "a" * 500, "the URL is 509 characters long; at most 500 are allowed"),
    ],
)
def test_each_wrong_url_is_answered_with_the_cure(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_base_url(text)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.0.1",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "[fe80::1]",
        "[::]",
        "[ff02::1]",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd20:ce::254]",
        "[fd00:ec2::23]",
        "[::169.254.169.254]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "192.0.0.192",
        "metadata",
        "metadata.google.internal",
        "METADATA.google.internal.",
    ],
)
def test_no_replica_is_put_at_a_forbidden_address(host: str) -> None:
    with pytest.raises(ValueError, match="no replica can be there"):
        normalise_url(f"http://{host}:80")
    # A table that has one is routed from all the same; what is there is not dialled.
    parse_base_url(f"http://{host}:80")


@pytest.mark.parametrize(
    "host",
    [
        "2852039166",
        "2130706433",
        "0xa9fea9fe",
        "0x7f.1",
        "0251.0376.0251.0376",
        "0177.0.0.1",
        "169.254.43518",
        "169.254.169.254.",
        "a.0x7f",
    ],
)
def test_odd_spellings_of_ipv4_addresses_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match="is not an IPv4 address"):
        parse_base_url(f"http://{host}")


@given(st.text(max_size=40).map(lambda text: "http://" + text) | st.text(max_size=40))
def test_any_text_is_either_normal_after_normalising_or_refused(text: str) -> None:
    try:
        normal = normalise_url(text)
    except ValueError:
        return
    assert normalise_url(normal) == normal
