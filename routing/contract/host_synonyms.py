"""Host synonyms (name aliases): when two hosts in the URLs of replicas are one. What DNS says is given."""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from routing.contract.embedded_ipv4 import destinations

LOOPBACK = "localhost"
"""Stands for every address and every name of the machine itself: a server that listens on 127.0.0.1 is most
likely the one at ``localhost``, ``[::1]``, 127.0.0.2 and 0.0.0.0 too."""

_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
_IPV4 = re.compile(r"(?!127\.|0\.)[0-9]{1,3}(?:\.[0-9]{1,3}){3}\Z")
"""Those that have no synonym but an IPv6 form."""


def is_address(host: str) -> bool:
    """Whether it is an IP address, without brackets, or this machine: DNS is not asked for it."""
    # A name whose last label is a number is an IPv4 address (routing.contract.addresses).
    return ":" in host or host.rpartition(".")[2].isdigit() or _is_loopback_name(host)


def identities(host: str, addresses: Iterable[str] = ()) -> tuple[str, ...]:
    """What this host may be: another one with one of these is the same. ``host``: without brackets.
    ``addresses``: what DNS has found for it."""
    if _IPV4.match(host) is not None:
        return (host,)
    name = host.lower().removesuffix(".")
    if _is_loopback_name(name):
        return (LOOPBACK,)
    if is_address(name):
        return _of_address(name)
    found = dict.fromkeys((name, *(one for address in addresses for one in _of_address(address))))
    return tuple(found)


def _is_loopback_name(host: str) -> bool:
    name = host.lower().removesuffix(".")
    return name in _LOOPBACK_NAMES or name.endswith(".localhost")


def _of_address(text: str) -> tuple[str, ...]:
    try:
        found = destinations(ip_address(text.partition("%")[0]))
    except ValueError:
        return (text,)
    return tuple(LOOPBACK if one.is_loopback or one.is_unspecified else str(one) for one in found)
