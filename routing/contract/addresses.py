"""Address policy: replicas' base URLs, read strictly and kept off forbidden addresses.

Pure: no name is looked up here. Whoever connects checks the address a name resolved to with
:func:`forbidden_address`, because a name may point anywhere, and elsewhere tomorrow.
"""

import ipaddress
import re
from typing import NamedTuple

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL_LENGTH = 500

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMERIC_LABEL = re.compile(r"([0-9]+|0x[0-9a-f]*)\Z")
_SEGMENT = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*\Z")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NETWORKS = (
    ("169.254.0.0/16", "link-local, where clouds serve instance metadata and credentials"),
    ("fe80::/10", "link-local"),
    ("fd00:ec2::254/128", "a cloud's instance metadata service"),
    ("100.100.100.200/32", "a cloud's instance metadata service"),
    ("168.63.129.16/32", "a cloud's host service"),
    ("255.255.255.255/32", "the broadcast address"),
    ("224.0.0.0/4", "multicast"),
    ("ff00::/8", "multicast"),
    ("0.0.0.0/8", "not an address of a host"),
    ("::/128", "not an address of a host"),
)
_FORBIDDEN = tuple((ipaddress.ip_network(network), words) for network, words in _NETWORKS)
_FORBIDDEN_NAMES = frozenset({"metadata.google.internal", "metadata.goog"})
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class BaseUrl(NamedTuple):
    """Where a replica listens. ``str()`` gives the one normal form that is stored and compared."""

    host: str
    """A name in lower case, or an IP address; IPv6 without its brackets."""
    port: int
    path_prefix: str
    """Empty, or ``/base`` without a slash at the end."""
    scheme: str = "http"
    """``http`` or ``https``."""

    @property
    def authority(self) -> str:
        """``host:port``."""
        return f"{self._host}:{self.port}"

    @property
    def host_field(self) -> str:
        """What a Host header carries. Servers behind TLS are often chosen by it, compared with a bare name
        (Envoy's ``domains``), so the usual port of https is left out (RFC 9110 §7.2)."""
        usual = self.scheme == "https" and self.port == DEFAULT_PORTS["https"]
        return self._host if usual else self.authority

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path_prefix}"


def parse_base_url(text: str) -> BaseUrl:
    """Read ``http://host[:port][/prefix]``, or the same with ``https``.

    Raises ValueError with one sentence that says what is wrong and what to write instead.
    """
    _check_characters(text)
    written, separator, rest = text.partition("://")
    scheme = written.lower()
    if not separator:
        raise ValueError(f'"{text}" is not a URL: write http://host:port')
    if scheme not in DEFAULT_PORTS:
        raise ValueError(
            f'the scheme "{written}" is not supported: write http://host:port or https://host:port'
        )
    for mark, name in (("?", "query"), ("#", "fragment")):
        if mark in rest:
            raise ValueError(f'a base URL has no {name}: remove everything from "{mark}" on')
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise ValueError("a base URL holds no user name or password: remove everything up to the @")
    host, port = _split_port(authority)
    prefix = path_prefix(path) if slash else ""
    return BaseUrl(_host(host), port or DEFAULT_PORTS[scheme], prefix, scheme)


def normalise_url(text: str) -> str:
    """The normal form of a replica's base URL; raises ValueError as :func:`parse_base_url` does."""
    return str(parse_base_url(text))


def certificate_name(text: str) -> str:
    """A name, or an IP address, that a certificate can be for, in its normal form. Raises ValueError."""
    if "*" in text:
        raise ValueError(f'"{text[:80]}": write one whole name; a certificate for *.a.test is for b.a.test')
    if ":" not in text:
        return _host(text).removesuffix(".")
    if text.count(":") == 1:
        raise ValueError(f'"{text[:80]}" has a port: a certificate is for a name alone, so leave it out')
    return _ip_address(text.removeprefix("[").removesuffix("]"), 6)


def forbidden_address(address: str) -> str | None:
    """Why a proxy or probe must not connect to this IP address, in words; ``None`` when it may.

    Loopback and private addresses are where replicas live and are allowed. An IPv4 address inside an
    IPv6 one (mapped, NAT64) is judged by the IPv4 address. Raises ValueError when it is no IP address.
    """
    parsed = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    for network, words in _FORBIDDEN:
        if parsed.version == network.version and parsed in network:
            return f"{address} is {words}: no replica can be there"
    return None


def _unwrapped(address: _Address) -> _Address:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _check_characters(text: str) -> None:
    if not text:
        raise ValueError("the URL is empty: write http://host:port")
    if len(text) > MAX_URL_LENGTH:
        raise ValueError(f"the URL is {len(text)} characters long; at most {MAX_URL_LENGTH} are allowed")
    if any(character.isspace() for character in text):
        raise ValueError("the URL holds a space or line break: remove it")
    if not text.isprintable() or "\\" in text:
        raise ValueError("the URL holds a control character or backslash: remove it")


def _split_port(authority: str) -> tuple[str, int | None]:
    """Host and port; no port: ``None``."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        if not bracket:
            raise ValueError(f'the "[" in "{authority}" is not closed: write http://[::1]:8000')
        host += bracket
    else:
        host, colon, rest = authority.partition(":")
        rest = colon + rest
    if not rest:
        return host, None
    if not host.startswith("[") and rest.count(":") > 1:
        raise ValueError(f"put brackets around an IPv6 address: write http://[{authority}]")
    digits = rest.removeprefix(":")
    if rest[0] != ":" or not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits[:6]) <= 65535:
        raise ValueError(f'"{digits}" is not a port: write a number from 1 to 65535')
    return host, int(digits)


def _host(host: str) -> str:
    if not host:
        raise ValueError("the host is missing: write http://host:port")
    if host.startswith("["):
        return _ip_address(host[1:-1], 6)
    name = host.lower()
    if not name.isascii():
        raise ValueError(f'the host "{host}" is not ASCII: write its xn-- form')
    labels = name.removesuffix(".").split(".")
    # A name that ends in a number is read as an IPv4 address in odd ways ("0x7f.1", "2852039166").
    if _NUMERIC_LABEL.match(labels[-1]):
        return _ip_address(name, 4)
    if len(name) > 253 or not all(_LABEL.match(label) for label in labels):
        raise ValueError(f'"{host}" is not a host name: use letters, digits, hyphens and dots')
    if name.removesuffix(".") in _FORBIDDEN_NAMES:
        raise ValueError(f"{host} is a cloud's instance metadata service: no replica can be there")
    return name


def _ip_address(text: str, version: int) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != version or "%" in text:
        form = "four numbers from 0 to 255, as in 10.0.0.1" if version == 4 else "an address as in [::1]"
        raise ValueError(f'"{text}" is not an IPv{version} address: write {form}')
    words = forbidden_address(text)
    if words is not None:
        raise ValueError(words)
    return str(address)


def path_prefix(path: str) -> str:
    """A path, given without its first slash, as it is kept: ``/a/b``, or empty. Raises ValueError."""
    segments = path.rstrip("/").split("/")
    if segments == [""]:
        return ""
    for segment in segments:
        if not segment:
            raise ValueError('the path holds "//": remove the empty part')
        if segment.lower().replace("%2e", ".") in (".", ".."):
            raise ValueError('the path holds "." or "..": write the path it leads to')
        if not _SEGMENT.match(segment):
            raise ValueError(f'the path part "{segment}" holds a character that must be percent-encoded')
    return "/" + "/".join(segments)
