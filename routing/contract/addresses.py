"""Base URLs of replicas, read strictly.

Pure: no name is looked up here. Whether a replica may be there says :mod:`routing.contract.address_policy`:
where the URL is written (:func:`normalise_url`), and again before each connection.
"""

import ipaddress
import re
from typing import NamedTuple

from routing.contract import address_policy

DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_URL_LENGTH = 500

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMERIC_LABEL = re.compile(r"([0-9]+|0x[0-9a-f]*)\Z")
_SEGMENT = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*\Z")


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
    """The normal form of a base URL that a replica is to have.

    Raises ValueError as :func:`parse_base_url` does, and where the policy in force denies the URL's host.
    """
    base = parse_base_url(text)
    words = address_policy.in_force().why_host_denied(base.host, base.port)
    if words is not None:
        raise ValueError(words)
    return str(base)


def certificate_name(text: str) -> str:
    """A name, or an IP address, that a certificate can be for, in its normal form. Raises ValueError."""
    if "*" in text:
        raise ValueError(f'"{text[:80]}": write one whole name; a certificate for *.a.test is for b.a.test')
    if ":" not in text:
        return _host(text).removesuffix(".")
    if text.count(":") == 1:
        raise ValueError(f'"{text[:80]}" has a port: a certificate is for a name alone, so leave it out')
    return _ip_address(text.removeprefix("[").removesuffix("]"), 6)


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
    is_number = rest[0] == ":" and digits.isascii() and digits.isdigit()
    number = digits.lstrip("0")
    if not is_number or not 1 <= len(number) <= 5 or (port := int(number)) > 65535:
        raise ValueError(f'"{digits}" is not a port: write a number from 1 to 65535')
    return host, port


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
    return name


def _ip_address(text: str, version: int) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != version or "%" in text:
        form = "four numbers from 0 to 255, as in 10.0.0.1" if version == 4 else "an address as in [::1]"
        raise ValueError(f'"{text}" is not an IPv{version} address: write {form}')
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
