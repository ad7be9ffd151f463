"""Address policy (protection against SSRF): which addresses a proxy or probe may connect to.

Theory. Whoever may write fleets decides where this host opens connections. Clouds hand out credentials to
whoever asks at a few link-local addresses, and our own admin listener and Redis trust whoever reaches them.
So every address is judged before it is dialled: what a URL says, and again what its name resolves to, each
time that a connection is opened, because a name may lead elsewhere tomorrow (DNS rebinding).

- Ports of this installation itself are denied; nothing allows them.
- Else the most specific network that has the address decides: of ALLOWED, DENIED, and those below. Of equally
  long prefixes DENIED goes before ALLOWED, and both before those below. So an exception for
  ``169.254.0.0/16`` does not open ``169.254.169.254``, which has to be named.
- What no network has is allowed: loopback and private addresses are where replicas live.
- An IPv6 address is also judged by each IPv4 address in it (:mod:`routing.contract.embedded_ipv4`).

Each process has one policy in force. Pure, but for ``is_local``, which is an argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from routing.contract.address_rules import ALLOWED, DENIED, AddressRules, OwnPort
from routing.contract.embedded_ipv4 import Address, destinations

_METADATA = "a cloud's instance metadata service"
_LINK_LOCAL = "link-local, where clouds serve credentials"
_NO_HOST = "not an address of a host"

_NETWORKS = (
    ("169.254.0.0/16", _LINK_LOCAL),
    ("169.254.169.254/32", _LINK_LOCAL),
    # AWS: credentials of ECS tasks and of EKS pods. Tencent.
    ("169.254.170.2/32", _LINK_LOCAL),
    ("169.254.170.23/32", _LINK_LOCAL),
    ("169.254.0.23/32", _LINK_LOCAL),
    ("fe80::/10", "link-local"),
    # AWS: instance metadata, credentials of EKS pods. Google.
    ("fd00:ec2::254/128", _METADATA),
    ("fd00:ec2::23/128", _METADATA),
    ("fd20:ce::254/128", _METADATA),
    # Alibaba, Oracle, Azure.
    ("100.100.100.200/32", _METADATA),
    ("192.0.0.192/32", _METADATA),
    ("168.63.129.16/32", "a cloud's host service"),
    ("255.255.255.255/32", "the broadcast address"),
    ("224.0.0.0/4", "multicast"),
    ("ff00::/8", "multicast"),
    ("0.0.0.0/8", _NO_HOST),
    ("::/128", _NO_HOST),
)
_NAMES = (
    "metadata",
    "metadata.goog",
    "metadata.google.internal",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
)
_LOCALHOST = frozenset({"localhost", "localhost.localdomain"})
_LOOPBACK = "localhost"
_THIS_HOST = ""
_NEVER = "no replica can be there"
_UNLESS = f"{_NEVER} unless {ALLOWED} names it"


NO_RULES = AddressRules()


class DeniedAddress(OSError):
    """The address policy denies a connection, so none was opened; the text says why."""


class _NetworkRule(NamedTuple):
    """One network: the addresses whose number, less ``rest`` bits at the end, is ``bits``."""

    rest: int
    bits: int
    words: str | None
    """Why it is denied; ``None``: it is allowed."""


class AddressPolicy:
    """What one process may connect to. Never changes."""

    __slots__ = ("_entries", "_is_local", "_names", "_own")

    def __init__(
        self,
        rules: AddressRules = NO_RULES,
        is_local: Callable[[str], bool] = lambda address: False,
    ) -> None:
        """``is_local``: whether an IP address is one of this host; of loopback it is known. Raises ValueError
        for rules that are not in normal form."""
        self._is_local = is_local
        self._own: dict[int, list[OwnPort]] = {}
        for place in rules.own:
            self._own.setdefault(place.port, []).append(_normal(place))
        ruled = [(each, f"is denied by {DENIED}={each}: {_UNLESS}") for each in rules.denied]
        verdicts = [*ruled, *((each, None) for each in rules.allowed), *_built_in()]
        # Of equal ones the first decides.
        self._names = {each: words for each, words in reversed(verdicts) if "/" not in each}
        self._entries: dict[int, list[_NetworkRule]] = {4: [], 6: []}
        """By version, the longest prefix first."""
        for each, words in verdicts:
            if "/" in each:
                network = ipaddress.ip_network(each)
                rest = network.max_prefixlen - network.prefixlen
                bits = int(network.network_address) >> rest
                self._entries[network.version].append(_NetworkRule(rest, bits, words))
        for entries in self._entries.values():
            entries.sort(key=lambda entry: entry.rest)

    def why_denied(self, address: str, port: int) -> str | None:
        """Why no connection may be opened to this IP address, in words; ``None``: it may. Raises ValueError
        when it is no IP address."""
        given = ipaddress.ip_address(address.partition("%")[0])
        for ends_at in destinations(given):
            words = self._own_port(ends_at, port) if port in self._own else None
            if words is not None:
                return f"{_place(address, port)} {words}"
            words = self._of_networks(ends_at)
            if words is not None:
                leads = "" if ends_at == given else f", which leads to {ends_at},"
                return f"{address}{leads} {words}"
        return None

    def why_host_denied(self, host: str, port: int) -> str | None:
        """The same of a URL's host, an IP address or a name in lower case, without looking it up."""
        try:
            return self.why_denied(host, port)
        except ValueError:
            name = host.removesuffix(".")
        for place in self._own.get(port, ()):
            if place.host == name:
                return f"{_place(host, port)} {_is_own(place)}"
        if (name in _LOCALHOST or name.endswith(".localhost")) and port in self._own:
            return self.why_denied("127.0.0.1", port)
        words = self._names.get(name)
        return None if words is None else f"{host} {words}"

    def refuse(self, address: str, port: int) -> None:
        """Raises DeniedAddress where :meth:`why_denied` says why."""
        words = self.why_denied(address, port)
        if words is not None:
            raise DeniedAddress(words)

    def refuse_host(self, host: str, port: int) -> None:
        """Raises DeniedAddress where :meth:`why_host_denied` says why."""
        words = self.why_host_denied(host, port)
        if words is not None:
            raise DeniedAddress(words)

    def permitted(self, host: str, addresses: tuple[str, ...], port: int) -> tuple[str, ...]:
        """Those of a host name's addresses that may be dialled. Raises DeniedAddress if there are none."""
        verdicts = [(address, self.why_denied(address, port)) for address in addresses]
        found = tuple(address for address, words in verdicts if words is None)
        if addresses and not found:
            raise DeniedAddress(f"{host} resolves to a forbidden address: {verdicts[0][1]}")
        return found

    def _own_port(self, address: Address, port: int) -> str | None:
        for place in self._own[port]:
            if place.any_host or self._is_at(place.host, address):
                return _is_own(place)
        return None

    def _is_at(self, host: str, address: Address) -> bool:
        # A connection to the unspecified address is one to loopback (Linux).
        if address.is_loopback or address.is_unspecified:
            return host in (_THIS_HOST, _LOOPBACK)
        return host == str(address) or (host == _THIS_HOST and self._is_local(str(address)))

    def _of_networks(self, address: Address) -> str | None:
        number = int(address)
        for entry in self._entries[address.version]:
            if number >> entry.rest == entry.bits:
                return entry.words
        return None


def _built_in() -> list[tuple[str, str | None]]:
    networks = [(network, f"is {words}: {_UNLESS}") for network, words in _NETWORKS]
    return [*networks, *((name, f"is a name of {_METADATA}: {_UNLESS}") for name in _NAMES)]


def _normal(place: OwnPort) -> OwnPort:
    """With one form of each host; at every address only where its own are not known."""
    if place.host in (_THIS_HOST, *_LOCALHOST):
        return replace(place, host=place.host and _LOOPBACK, any_host=False)
    try:
        address = ipaddress.ip_address(place.host)
    except ValueError:
        return place
    host = _LOOPBACK if address.is_loopback else _THIS_HOST if address.is_unspecified else str(address)
    return replace(place, host=host, any_host=False)


def _is_own(place: OwnPort) -> str:
    return f"is {place.what}: {_NEVER}"


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_in_force = [AddressPolicy()]


def in_force() -> AddressPolicy:
    """The policy of this process."""
    return _in_force[0]


def use(policy: AddressPolicy) -> AddressPolicy:
    """Judge by this policy in this process from now on. Returns the one before."""
    before, _in_force[0] = _in_force[0], policy
    return before
