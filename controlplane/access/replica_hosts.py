"""Replica hosts (tenant isolation): which of them serve fleets of others.

Whoever may register any address could make a fleet at another team's replicas, and with ``expose: all`` stop
or reload their servers. So a role for some fleets only registers no host and port at which a fleet that it
does not administer has a replica. Where fleets share one all the same, because an administrator of all fleets
wants it, such a role sets no ``expose`` but ``inference``, leaves the names of models, which could be another
team's there, as they are, and chooses no requests of probes. These go to each replica, whatever ``expose``
says: a chosen one would reach what clients may not, a port of the metrics page another server of that host.

Hosts are compared as the proxy compares them (:mod:`routing.contract.host_synonyms`): a name is also
each of the addresses that DNS has for it now. So a new host must have an address. Another team's name for
which nobody answers is compared as it is written. What DNS says later is not looked at here.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from controlplane.access.host_lookup import Addresses
from controlplane.models import Fleet, Replica
from routing.contract.addresses import BaseUrl, parse_base_url
from routing.contract.exposure import INFERENCE
from routing.contract.field_rules import below
from routing.contract.host_synonyms import identities, is_address
from routing.contract.metrics_pages import PAGES

HostPort = tuple[str, int]
"""Host and port."""

_NAMES_OF_MODELS: Mapping[str, Any] = {"served_model": "", "adapters": []}
"""Fields that say which models clients may name, each with what ``null`` means."""
_CHOSEN = ("path", "method", "body", "metrics_path")
"""Fields of a probe that choose its request. Not set, it is the preset's, which does no harm."""
_HTTP = "http"
_REACHING = {*_NAMES_OF_MODELS, "probe"}
_STAYS = (
    "the fleet shares a host with one that you do not administer, so that {}: have it changed with "
    "administer for all fleets, or give the fleet hosts of its own."
)
_NOT_ASKED = ("",)
_NAMELESS = (
    "the host name has no address now, so that it cannot be told from hosts of fleets that you do not "
    "administer: register it once it has one, or have it registered with administer for all fleets."
)
_UNKNOWN = (
    "DNS does not say now whether a fleet that you do not administer is at this host and port: try again "
    "later, use an address, or have it registered with administer for all fleets."
)


class HostCheck:
    """Of settings as the API is sent them. First :attr:`names` are looked up, then :meth:`crossings` found.

    ``administered``: names of the fleets that are one's own. ``fleet``, ``replica``: whose settings change;
    what it has already may stay.
    """

    def __init__(
        self, settings: Mapping[str, Any], administered: Container[str], fleet: str = "", replica: str = ""
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._sent: list[tuple[str, str]] = []
        """New URLs, with their pointers."""
        self._own: list[str] = []
        """All URLs of the fleet, those that are sent included."""
        self._others: list[BaseUrl] = []
        """At ports to which these lead."""
        self._stored = Fleet()
        self._metrics_port: int | None = None
        urls = list(_urls_in(settings))
        if urls or (settings.get("expose") or INFERENCE) != INFERENCE or settings.keys() & _REACHING:
            self._read(urls, administered, replica)

    def _read(self, urls: list[tuple[str, str]], administered: Container[str], replica: str) -> None:
        rows = list(Replica.objects.values_list("fleet__name", "name", "url"))
        kept = next((url for owner, name, url in rows if (owner, name) == (self._fleet, replica)), None)
        self._stored = Fleet.objects.filter(name=self._fleet).first() or self._stored
        self._sent = [(pointer, url) for pointer, url in urls if _normal(url) != kept]
        self._own = [url for owner, _, url in rows if owner == self._fleet] + [url for _, url in urls]
        ports = {base.port for base in map(_base, self._own) if base is not None}
        self._metrics_port = _metrics_port(_probe_after(self._stored.probe, self._settings))
        theirs = (_base(url) for owner, _, url in rows if owner not in administered)
        self._others = [
            base for base in theirs if base is not None and base.port in {*ports, self._metrics_port}
        ]

    @property
    def names(self) -> frozenset[str]:
        """Host names that must be looked up: none but those of hosts whose ports others have as well."""
        ports = {base.port for base in self._others}
        own = [base for base in map(_base, self._own) if base is not None]
        if self._metrics_port not in ports:
            own = [base for base in own if base.port in ports]
        bases = [*self._others, *own]
        return frozenset(base.host for base in bases if not is_address(base.host))

    def crossings(self, addresses: Addresses) -> Iterator[tuple[str, str]]:
        """(JSON pointer, what is wrong). ``addresses``: of all :attr:`names`."""
        if not self._others:
            return
        others = {place for base in self._others for place in _places(base, base.port, addresses)}
        ports = {base.port for base in self._others}

        def is_doubtful(host: str, port: int) -> bool:
            # Not where theirs is unknown: one name without an answer would close the port to all others.
            return port in ports and _is_unknown(host, addresses)

        for pointer, url in self._sent:
            if (base := _base(url)) is None:
                continue
            if others.intersection(_places(base, base.port, addresses)):
                yield (
                    pointer,
                    "at this host and port is a fleet that you do not administer: use another, or have it "
                    "registered with administer for all fleets.",
                )
            elif base.port in ports and addresses.get(base.host, _NOT_ASKED) == ():
                yield pointer, _NAMELESS
            elif is_doubtful(base.host, base.port):
                yield pointer, _UNKNOWN
        yield from self._metrics_crossings(others, is_doubtful, addresses)
        own = [base for base in map(_base, self._own) if base is not None]
        if any(others.intersection(_places(base, base.port, addresses)) for base in own):
            yield from _crossings_of_sharing(self._settings, self._stored)
        elif any(is_doubtful(base.host, base.port) for base in own):
            for pointer, _ in _crossings_of_sharing(self._settings, self._stored):
                yield pointer, _UNKNOWN

    def _metrics_crossings(
        self, others: set[HostPort], is_doubtful: Callable[[str, int], bool], addresses: Addresses
    ) -> Iterator[tuple[str, str]]:
        """A metrics page is judged as a replica's address is."""
        probe = _probe_after(self._stored.probe, self._settings)
        port = self._metrics_port
        if port is None:
            return
        sent: Iterable[tuple[str, str]] = self._sent
        if port != _metrics_port(self._stored.probe):
            pointer = "/probe/metrics_port" if "metrics_port" in probe else "/probe/preset"
            sent = [(pointer, url) for url in self._own]
        for pointer, url in sent:
            if (base := _base(url)) is None or base.port == port:
                continue
            if others.intersection(_places(base, port, addresses)):
                yield (
                    pointer,
                    "at this host and port of the metrics page is a fleet that you do not administer: use "
                    "another, or have it set with administer for all fleets.",
                )
            elif is_doubtful(base.host, port):
                yield pointer, _UNKNOWN


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
    probe = _probe_after(stored.probe, settings)
    words = _STAYS.format("what its probe requests stays as it is, or the preset's")
    for field in _CHOSEN:
        if field in probe and probe[field] != stored.probe.get(field):
            yield f"/probe/{field}", words
    if "metrics_path" in probe and _metrics_port(probe) != _metrics_port(stored.probe):
        yield "/probe/metrics_port", words


def _probe_after(stored: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A fleet's probe as it will be with settings as the API is sent them, which may be invalid."""
    if "probe" not in settings:
        return dict(stored)
    sent = settings["probe"] if isinstance(settings["probe"], Mapping) else None
    if sent is None or (sent.get("preset", _HTTP) != stored.get("preset", _HTTP) and "preset" in sent):
        stored = {}  # another preset keeps none of the fields that are looked at here
    return {name: value for name, value in {**stored, **(sent or {})}.items() if value is not None}


def _metrics_port(probe: Mapping[str, Any]) -> int | None:
    """``None``: the replica's own, or none that is valid."""
    port = probe.get("metrics_port")
    if port is None and isinstance(preset := probe.get("preset"), str) and preset in PAGES:
        port = PAGES[preset].port
    return port if isinstance(port, int) else None


def _urls_in(settings: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(url := settings.get("url"), str):
        yield below(at, "url"), url
    replicas = settings.get("replicas")
    for index, replica in enumerate(replicas if isinstance(replicas, list) else ()):
        if isinstance(replica, Mapping):
            yield from _urls_in(replica, below(below(at, "replicas"), index))


def _base(url: str) -> BaseUrl | None:
    """None of what is no URL: that is refused elsewhere."""
    try:
        return parse_base_url(url)
    except ValueError:
        return None


def _places(base: BaseUrl, port: int, addresses: Addresses) -> list[HostPort]:
    """All that this host may be, with a port."""
    return [(host, port) for host in identities(base.host, addresses.get(base.host) or ())]


def _is_unknown(host: str, addresses: Addresses) -> bool:
    return addresses.get(host, _NOT_ASKED) is None


def _normal(url: str) -> str:
    base = _base(url)
    return "" if base is None else str(base)
