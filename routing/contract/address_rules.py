"""Address rules: what the settings say of the addresses that replicas may have.

Both planes read the same three environment variables. Pure; what the rules decide is in
:mod:`routing.contract.address_policy`.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

ALLOWED = "SWITCHYARD_ALLOWED_ADDRESSES"
DENIED = "SWITCHYARD_DENIED_ADDRESSES"
OWN_PORTS = "SWITCHYARD_OWN_PORTS"

_OWN = f"a port of Switchyard ({OWN_PORTS})"

_NAME = re.compile(r"(?!(.*\.)?([0-9]+|0x[0-9a-f]*)\Z)[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?\Z")
"""Of a host. What ends in a number would be read as an IPv4 address."""
_PLACES = re.compile(r"(?:(?:\[([^\[\]]+)\]|([^\[\]:]+)):)?([0-9]{1,5})(?:-([0-9]{1,5}))?\Z")

T = TypeVar("T")


class OwnPort(msgspec.Struct, frozen=True):
    """A port of this installation itself, at which no replica can be."""

    port: int
    what: str
    """What listens there, in words."""
    host: str = ""
    """IP address or host name, in lower case: what a listener is bound to, or where a service is. Empty or
    unspecified (``0.0.0.0``): all addresses of this host."""
    any_host: bool = False
    """Where ``host`` is a name: whether the port is taken at every address, because those of the name are
    not known here."""


class AddressRules(msgspec.Struct, frozen=True):
    """The rules of one process."""

    allowed: tuple[str, ...] = ()
    """Networks (``10.0.0.0/8``) and host names that are exceptions from what is denied."""
    denied: tuple[str, ...] = ()
    own: tuple[OwnPort, ...] = ()


def from_environment(environment: Mapping[str, str]) -> AddressRules:
    """Raises ValueError, in words that name the variable."""

    def read(name: str, reader: Callable[[str], T]) -> T:
        try:
            return reader(environment.get(name, ""))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    allowed, denied = read(ALLOWED, read_networks), read(DENIED, read_networks)
    return AddressRules(allowed, denied, read(OWN_PORTS, read_ports))


def read_networks(text: str) -> tuple[str, ...]:
    """Networks, addresses and host names, separated by commas; in normal form. Raises ValueError."""
    return tuple(_network(entry) for entry in _entries(text))


def read_ports(text: str) -> tuple[OwnPort, ...]:
    """``PORT``, ``FROM-TO``, ``HOST:PORT`` and ``HOST:FROM-TO``, separated by commas. Raises ValueError."""
    return tuple(place for entry in _entries(text) for place in _places(entry))


def own_service(url: str, default_port: int, what: str, *, any_host: bool = False) -> tuple[OwnPort, ...]:
    """The place of ``scheme://host[:port]/…``; none for a Unix socket."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return ()
    host = (parts.hostname or "localhost").removesuffix(".")
    return (OwnPort(parts.port or default_port, what, host, any_host),)


def _entries(text: str) -> list[str]:
    return [entry.strip().lower() for entry in text.split(",") if entry.strip()]


def _network(entry: str) -> str:
    try:
        return str(ipaddress.ip_network(entry.removeprefix("[").removesuffix("]")))
    except ValueError as error:
        if "host bits" in str(error):
            whole = ipaddress.ip_network(entry, strict=False)
            raise ValueError(f'"{entry}" is not a network: write {whole}, or one address') from None
    name = entry.removesuffix(".")
    if not _NAME.match(name):
        raise ValueError(
            f'"{entry}" is no network (10.0.0.0/8, fd00::/8), no IP address and no host name: correct it'
        )
    return name


def _places(entry: str) -> list[OwnPort]:
    if places := _PLACES.match(entry):
        bracketed, plain, first, last = places.groups()
        host = (bracketed or plain or "").removesuffix(".")
        known = not host or _is_address(host) or (plain and _NAME.match(host))
        if known and 1 <= int(first) <= int(last or first) <= 65535:
            return [OwnPort(port, _OWN, host) for port in range(int(first), int(last or first) + 1)]
    raise ValueError(
        f'"{entry}" is no port: write 8081, 9464-9467, 10.0.0.5:8081 or [fd00::1]:8081-8082, '
        "with numbers from 1 to 65535"
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
