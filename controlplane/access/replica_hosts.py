"""Replica hosts (tenant isolation): which of them serve fleets of others.

Whoever may register any address could make a fleet at another team's replicas, and with ``expose: all`` stop
or reload their servers. So a role for some fleets only registers no host and port at which a fleet that it
does not administer has a replica. Where fleets share one all the same, because an administrator of all fleets
wants it, such a role sets no ``expose`` but ``inference``.

Hosts are compared as they are written: a name and its address are two.
"""

import ipaddress
from collections.abc import Container, Iterator, Mapping
from typing import Any

from controlplane.models import Fleet, Replica
from routing.contract.addresses import parse_base_url
from routing.contract.embedded_ipv4 import destinations
from routing.contract.exposure import INFERENCE
from routing.contract.field_rules import below

_LOOPBACK = "localhost"


def crossings(
    settings: Mapping[str, Any], administered: Container[str], fleet: str = "", replica: str = ""
) -> Iterator[tuple[str, str]]:
    """(JSON pointer, what is wrong) of settings as the API is sent them, which reach hosts of others.

    ``administered``: names of the fleets that are one's own. ``fleet``, ``replica``: whose settings change;
    what it has already may stay.
    """
    urls = list(_urls_in(settings))
    said = settings.get("expose") or INFERENCE
    if not urls and said == INFERENCE:
        return
    rows = list(Replica.objects.values_list("fleet__name", "name", "url"))
    others = {place for owner, _, url in rows if owner not in administered for place in _places(url)}
    kept = next((url for owner, name, url in rows if (owner, name) == (fleet, replica)), None)
    for pointer, url in urls:
        if others.intersection(_places(url)) and _normal(url) != kept:
            yield (
                pointer,
                "at this host and port is a fleet that you do not administer: use another, or have it "
                "registered with administer for all fleets.",
            )
    own = [url for owner, _, url in rows if owner == fleet] + [url for _, url in urls]
    shares = any(others.intersection(_places(url)) for url in own)
    if said != INFERENCE and shares and said != _expose_of(fleet):
        yield (
            "/expose",
            "the fleet shares a host with one that you do not administer, so that it exposes `inference` "
            "only: anything else needs administer for all fleets.",
        )


def _urls_in(settings: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(url := settings.get("url"), str):
        yield below(at, "url"), url
    replicas = settings.get("replicas")
    for index, replica in enumerate(replicas if isinstance(replicas, list) else ()):
        if isinstance(replica, Mapping):
            yield from _urls_in(replica, below(below(at, "replicas"), index))


def _places(url: str) -> list[tuple[str, int]]:
    """Host and port, an IPv4 address also where it is embedded in another. None of what is no URL: that is
    refused elsewhere."""
    try:
        base = parse_base_url(url)
    except ValueError:
        return []
    host = base.host.removesuffix(".")
    try:
        found = destinations(ipaddress.ip_address(host))
    except ValueError:
        return [(host, base.port)]
    return [(_LOOPBACK if each.is_loopback else str(each), base.port) for each in found]


def _normal(url: str) -> str:
    try:
        return str(parse_base_url(url))
    except ValueError:
        return ""


def _expose_of(fleet: str) -> Any:
    return Fleet.objects.filter(name=fleet).values_list("expose", flat=True).first()
