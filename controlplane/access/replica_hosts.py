"""Replica hosts (tenant isolation): which of them serve fleets of others.

Whoever may register any address could make a fleet at another team's replicas, and with ``expose: all`` stop
or reload their servers. So a role for some fleets only registers no host and port at which a fleet that it
does not administer has a replica. Where fleets share one all the same, because an administrator of all fleets
wants it, such a role sets no ``expose`` but ``inference``, leaves the names of models, which could be another
team's there, as they are, and chooses no requests of probes (:mod:`.probe_targets`).

Hosts are compared as they are written: a name and its address are two.
"""

import ipaddress
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from controlplane.access.probe_targets import CUSTOM, metrics_port, probe_after
from controlplane.models import Fleet, Replica
from routing.contract.addresses import parse_base_url
from routing.contract.embedded_ipv4 import destinations
from routing.contract.exposure import INFERENCE
from routing.contract.field_rules import below

Place = tuple[str, int]
"""Host and port."""

_LOOPBACK = "localhost"
_NAMES_OF_MODELS: Mapping[str, Any] = {"served_model": "", "adapters": []}
"""Fields that say which models clients may name, each with what ``null`` means."""
_REACHING = {*_NAMES_OF_MODELS, "probe"}
_STAYS = (
    "the fleet shares a host with one that you do not administer, so that {}: have it changed with "
    "administer for all fleets, or give the fleet hosts of its own."
)


def crossings(
    settings: Mapping[str, Any], administered: Container[str], fleet: str = "", replica: str = ""
) -> Iterator[tuple[str, str]]:
    """(JSON pointer, what is wrong) of settings as the API is sent them, which reach hosts of others.

    ``administered``: names of the fleets that are one's own. ``fleet``, ``replica``: whose settings change;
    what it has already may stay.
    """
    urls = list(_urls_in(settings))
    said = settings.get("expose") or INFERENCE
    if not urls and said == INFERENCE and not settings.keys() & _REACHING:
        return
    rows = list(Replica.objects.values_list("fleet__name", "name", "url"))
    others = {place for owner, _, url in rows if owner not in administered for place in _places(url)}
    kept = next((url for owner, name, url in rows if (owner, name) == (fleet, replica)), None)
    sent = [(pointer, url) for pointer, url in urls if _normal(url) != kept]
    for pointer, url in sent:
        if others.intersection(_places(url)):
            yield (
                pointer,
                "at this host and port is a fleet that you do not administer: use another, or have it "
                "registered with administer for all fleets.",
            )
    stored = Fleet.objects.filter(name=fleet).first() or Fleet()
    own = [url for owner, _, url in rows if owner == fleet] + [url for _, url in urls]
    yield from _metrics_crossings(settings, stored, others, own, sent)
    if any(others.intersection(_places(url)) for url in own):
        yield from _crossings_of_sharing(settings, stored)


def _metrics_crossings(
    settings: Mapping[str, Any],
    stored: Fleet,
    others: set[Place],
    own: Iterable[str],
    sent: Iterable[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """A metrics page is judged as a replica's address is. ``own``: all URLs of the fleet; ``sent``: of these,
    with their pointers, those that are new."""
    probe = probe_after(stored.probe, settings)
    port = metrics_port(probe)
    if port is None:
        return
    words = (
        "at this host and port of the metrics page is a fleet that you do not administer: use another, or "
        "have it set with administer for all fleets."
    )
    if port != metrics_port(stored.probe):
        sent = [("/probe/metrics_port" if "metrics_port" in probe else "/probe/preset", url) for url in own]
    for pointer, url in sent:
        if others.intersection((host, port) for host, own_port in _places(url) if own_port != port):
            yield pointer, words


def _crossings_of_sharing(settings: Mapping[str, Any], stored: Fleet) -> Iterator[tuple[str, str]]:
    """Of a fleet that shares a host: what its clients and its probes may reach there stays as it is."""
    said = settings.get("expose") or INFERENCE
    if said not in (INFERENCE, stored.expose):
        yield (
            "/expose",
            "the fleet shares a host with one that you do not administer, so that it exposes `inference` "
            "only: anything else needs administer for all fleets.",
        )
    for field, unset in _NAMES_OF_MODELS.items():
        if field in settings and (settings[field] or unset) != getattr(stored, field):
            yield f"/{field}", _STAYS.format("the names of its models stay as they are")
    probe = probe_after(stored.probe, settings)
    words = _STAYS.format("what its probe requests stays as it is, or the preset's")
    for field in CUSTOM:
        if field in probe and probe[field] != stored.probe.get(field):
            yield f"/probe/{field}", words
    if "metrics_path" in probe and metrics_port(probe) != metrics_port(stored.probe):
        yield "/probe/metrics_port", words


def _urls_in(settings: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(url := settings.get("url"), str):
        yield below(at, "url"), url
    replicas = settings.get("replicas")
    for index, replica in enumerate(replicas if isinstance(replicas, list) else ()):
        if isinstance(replica, Mapping):
            yield from _urls_in(replica, below(below(at, "replicas"), index))


def _places(url: str) -> list[Place]:
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
