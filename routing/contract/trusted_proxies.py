"""Trusted proxies: whose word is taken for a client's address, on both planes.

Each hop appends to ``X-Forwarded-For`` whom it speaks with, so the list is believed from the right, as far as
the hops are trusted. What stands left of the first untrusted address was written by that client.

Sources: RFC 7239 §4 and §7.4 (node identifiers); the rightmost-untrusted rule is that of nginx's
``real_ip_recursive``.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from routing.contract.embedded_ipv4 import Address

UNIX = "unix"
"""Whoever connects by a Unix socket."""
_MOST_HOPS = 32
"""Entries of a list that are looked at; a longer one is believed up to there."""
_SUBSCRIBER_BITS = 64
"""Of an IPv6 address: what one subscriber has is a network of at least this size (RFC 6177 §2)."""


class TrustedProxies:
    """The networks of trusted proxies, in the form in which a setting or a flag has them. Immutable."""

    __slots__ = ("_networks", "_unix", "is_trusted", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Networks, addresses and ``unix``, as :func:`read` gives them."""
        self.names = tuple(names)
        self._unix = UNIX in self.names
        self._networks = tuple(ip_network(name) for name in self.names if name != UNIX)
        self.is_trusted = lru_cache(maxsize=1024)(self._is_trusted)
        """Whether this address, or ``unix``, is one of theirs; of anything that is no address, False."""

    def __bool__(self) -> bool:
        return bool(self.names)

    def client(self, peer: str, forwarded_for: str) -> str:
        """The client's address: the rightmost of ``X-Forwarded-For`` that is no trusted proxy's, or ``peer``,
        who sent it. Of an entry that is no address nothing is believed, nor of those before it."""
        found = peer
        for entry in reversed(forwarded_for.rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]):
            if not self.is_trusted(found):
                break
            address = node_address(entry)
            if not address:
                break
            found = address
        return found

    def _is_trusted(self, address: str) -> bool:
        if address == UNIX:
            return self._unix
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def read(text: str) -> tuple[str, ...]:
    """Networks, addresses and ``unix``, separated by commas; in normal form. Raises ValueError."""
    return tuple(_name(entry.strip().lower()) for entry in text.split(",") if entry.strip())


def _name(entry: str) -> str:
    if entry == UNIX:
        return entry
    try:
        network = ip_network(entry.removeprefix("[").removesuffix("]"))
    except ValueError as error:
        if "host bits" in str(error):
            whole = ip_network(entry, strict=False)
            raise ValueError(f'"{entry}" is not a network: write {whole}, or one address') from None
        raise ValueError(
            f'"{entry}" is no network (10.0.0.0/8, fd00::/8), no IP address and not the word unix: correct it'
        ) from None
    return str(_unmapped_network(network))


def _unmapped_network(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """``::ffff:10.0.0.0/104`` is 10.0.0.0/8: addresses are compared in that form."""
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None or network.prefixlen < 96:
        return network
    return IPv4Network((mapped, network.prefixlen - 96))


def node_address(entry: str) -> str:
    """The address in one entry of ``X-Forwarded-For``, or of a ``for`` in ``Forwarded``: with a port or
    without, quoted or not. Empty: it holds none."""
    text = entry.strip(' \t"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    parsed = _parsed(text)
    return "" if parsed is None else str(parsed)


def forwarded_for(forwarded: str) -> str:
    """The ``for`` of each hop in a ``Forwarded`` field, as the list that ``X-Forwarded-For`` would have."""
    nodes = []
    for hop in forwarded.split(",")[-_MOST_HOPS:]:
        pairs = (pair.strip().partition("=") for pair in hop.split(";"))
        nodes.append(next((value for name, _, value in pairs if name.lower() == "for"), "unknown"))
    return ",".join(nodes)


@lru_cache(4096)
def client_group(address: str) -> str:
    """What counts as one client where guesses are limited: an IPv4 address, or the /64 of an IPv6 one."""
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, _SUBSCRIBER_BITS), strict=False))
    return str(parsed)


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.version == 6 and address.ipv4_mapped) or address
