"""Settings of a source of leases, and of one lease."""

import ipaddress
from collections.abc import Iterable

from routing.contract.addresses import parse_base_url
from routing.contract.field_rules import ListOf, Section, Text, seconds
from routing.contract.fleet_file.replica_rules import REPLICA

LEASE_FIELDS = (
    *("url", "hardware", "site", "version", "weight", "max_concurrency", "adapters", "memory_bytes"),
    *("request_bytes", "request_bytes_per_work"),
)
"""What a replica may say of itself. Secrets are none of it: a source's ``replica`` names them for all."""


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text.strip()))
    except ValueError:
        host = text.strip().lower().rstrip(".")
    if "/" in host:
        raise ValueError(f'"{host[:80]}" is no network: write it as 10.0.0.0/8, no bits beyond the prefix')
    name = host.removeprefix("*.")
    try:
        parse_base_url(f"http://{name}")
    except ValueError as error:
        raise ValueError(f"must be a network, an address, a host name or *. and a suffix: {error}") from None
    return host


LEASE = Section(
    words="Replicas that register themselves, and stay as long as they renew their lease.",
    what="a source of leases",
    fields={
        "allow": ListOf(
            words="Where these replicas may be: networks (`10.0.0.0/8`), addresses, host names, or `*.` and "
            "a suffix.",
            item=Text(words="A network, an address, a host name or a suffix.", check=_host),
            plural="networks and host names",
            at_least=1,
            at_most=200,
            distinct=True,
            required="[10.0.0.0/8]",
        ),
        "ttl_s": seconds("How long a lease holds unless it is renewed. Not set: 30.", 5, 3600),
    },
)
LEASE_REQUEST = Section(
    words="What a replica says of itself when it registers or renews.",
    what="a lease",
    fields={name: REPLICA.fields[name] for name in LEASE_FIELDS},
)


def is_allowed(host: str, allow: Iterable[str]) -> bool:
    """``host``: of a base URL. A name is not looked up: it has to be named itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return any(host == one or (one[:2] == "*." and host.endswith(one[1:])) for one in allow)
    return any(_holds(one, address) for one in allow)


def _holds(network: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(network)
    except ValueError:
        return False
