"""DNS service discovery: replicas at the addresses of a name (A, AAAA), or at the targets of its SRV records.

The resolver (dnspython) asks the next server after an error, and asks again over TCP where an answer was
truncated. What it cannot learn from any server in time is a source that does not answer: an error for AAAA
beside addresses for A is no list, for half of the replicas would be missing from it. A name without records,
or that is not there at all, is a list of none, which is not believed (:mod:`..reconciler`) but told.

Priorities and weights of SRV records are not used: which replica gets a request is the strategy's matter.
"""

import asyncio
import hashlib
import ipaddress
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import dns.asyncresolver
import dns.exception
import dns.name
import dns.nameserver
import dns.rdatatype
import dns.rdtypes.IN.SRV
import dns.resolver

from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.kinds.kind import SourceError, entries_of, no_changes
from controlplane.discovery.listing import Listing
from routing.contract.fleet_file.sources.dns_records import port_of, split_server
from routing.contract.names import is_slug

ANSWER_WITHIN_S = 2.0
"""Of one server, before the next one is asked."""
LIFETIME_S = 5.0
"""Of one question, all servers included."""

UrlOf = Callable[[str, int], str]


class DnsRecords:
    wants_own = False

    def __init__(self, settings: dict[str, Any], template: Mapping[str, Any]) -> None:
        """``settings``: the group ``dns`` of a source, with its defaults."""
        self._settings = settings
        self._template = template
        self._name = dns.name.from_text(settings["name"])

    async def read(self, own: Mapping[str, OwnRow]) -> Listing:
        if self._settings["type"] == "srv":
            found = await self._ask("SRV")
            urls = _of_targets(found, self._url)
        else:
            both = await asyncio.gather(self._ask("A"), self._ask("AAAA"))
            found = None if both[0] is None and both[1] is None else [*(both[0] or ()), *(both[1] or ())]
            urls = _of_addresses(found, port_of(self._settings), self._url)
        values = [{"name": name, "url": url} for name, url in sorted(urls.items())]
        note = ""
        if found is None:
            note = f"there is no name {self._settings['name']} in DNS"
        elif not found:
            note = f"DNS has no {self._records} records of {self._settings['name']}"
        return Listing(entries_of(values, self._template, ""), note=note)

    def changes(self) -> AsyncIterator[None]:
        return no_changes()

    async def close(self) -> None:
        return

    @property
    def _records(self) -> str:
        return "SRV" if self._settings["type"] == "srv" else "A and AAAA"

    def _url(self, host: str, port: int) -> str:
        prefix = self._settings["path_prefix"]
        return f"{self._settings['scheme']}://{host}:{port}{prefix}"

    async def _ask(self, kind: str) -> list[Any] | None:
        """Records; ``None``: there is no such name. Raises SourceError."""
        try:
            answer = await self._resolver().resolve(
                self._name, kind, raise_on_no_answer=False, search=False, lifetime=LIFETIME_S
            )
        except dns.resolver.NXDOMAIN:
            return None
        except dns.resolver.LifetimeTimeout:
            raise SourceError(f"DNS did not answer for {kind} of {self._settings['name']}") from None
        except dns.resolver.NoNameservers as error:
            raise SourceError(
                f"DNS failed for {kind} of {self._settings['name']}: {_failures(error)}"
            ) from None
        except (dns.exception.DNSException, OSError) as error:
            raise SourceError(f"DNS failed for {kind} of {self._settings['name']}: {error}") from None
        return list(answer.rrset or ())

    def _resolver(self) -> dns.asyncresolver.Resolver:
        """Made anew each time, so that a change of the system's servers is seen. Raises SourceError."""
        servers = self._settings["nameservers"]
        try:
            resolver = dns.asyncresolver.Resolver(configure=not servers)
        except dns.exception.DNSException as error:
            raise SourceError(f"the system names no DNS server: {error}; set dns.nameservers") from None
        if servers:
            resolver.nameservers = [_server(text) for text in servers]
        resolver.timeout = ANSWER_WITHIN_S
        return resolver


def _server(text: str) -> dns.nameserver.Nameserver:
    host, port = split_server(text)
    return dns.nameserver.Do53Nameserver(host, port)


def _failures(error: dns.resolver.NoNameservers) -> str:
    """What the servers said last: ``SERVFAIL``, a refused connection."""
    said = [str(one[3]) or type(one[3]).__name__ for one in error.kwargs.get("errors", ())]
    return said[-1] if said else "no server answers"


def _of_addresses(found: list[Any] | None, port: int, url: UrlOf) -> dict[str, str]:
    urls = {}
    for record in found or ():
        address = ipaddress.ip_address(record.address)
        host = f"[{address}]" if address.version == 6 else str(address)
        name = address.exploded.replace(":", "-") if address.version == 6 else str(address)
        urls[name] = url(host, port)
    return urls


def _of_targets(found: list[Any] | None, url: UrlOf) -> dict[str, str]:
    urls = {}
    for record in found or ():
        if record.target == dns.name.root:  # "no service here" (RFC 2782)
            continue
        host = record.target.to_text(omit_final_dot=True).lower()
        name = f"{host}-{record.port}"
        if not is_slug(name):
            name = f"srv-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        urls[name] = url(host, record.port)
    return urls
