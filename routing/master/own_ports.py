"""Own ports of a proxy: where it listens itself, and where its Redis is. No replica can be there."""

from collections.abc import Sequence
from socket import socket

from msgspec.structs import replace

from routing.contract import address_policy
from routing.contract.address_policy import AddressPolicy
from routing.contract.address_rules import AddressRules, OwnPort, own_service
from routing.contract.local_addresses import is_local
from routing.master.options import Options

REDIS_PORT = 6379
LISTENER = "the proxy itself"
ADMIN = "the proxy's admin listener"


def in_options(options: Options) -> AddressRules:
    """The rules that are known before the sockets are open."""
    listen, admin = options.listen, options.admin
    own = [OwnPort(listen.port, LISTENER, listen.host)]
    if admin is not None:
        own.append(OwnPort(admin.port, ADMIN, admin.host))
    return _rules(options, own)


def of_sockets(options: Options, listeners: Sequence[socket], admin: socket | None) -> AddressRules:
    """The same by the sockets: the kernel may have chosen their ports."""
    own = [_place(listener, LISTENER) for listener in listeners]
    if admin is not None:
        own.append(_place(admin, ADMIN))
    return _rules(options, own)


def _place(listener: socket, what: str) -> OwnPort:
    host, port = listener.getsockname()[:2]
    return OwnPort(port, what, host)


def _rules(options: Options, own: list[OwnPort]) -> AddressRules:
    if options.redis_url is not None:
        own += own_service(options.redis_url, REDIS_PORT, "the proxy's Redis", any_host=True)
    # One listener for each worker has the same place.
    return replace(options.addresses, own=(*options.addresses.own, *dict.fromkeys(own)))


def judge_by(rules: AddressRules) -> None:
    """Judge addresses by these rules in this process from now on."""
    address_policy.use(AddressPolicy(rules, is_local))
