"""EndpointSlices of a service → replicas. Pure.

An endpoint is a replica, named after its pod, whether it is ready or not: that is for probes to say. One that
terminates is the source's word that it goes. Where one pod is in several slices (for a while, or for several
address families), the one that does not terminate counts before others, then IPv4.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controlplane.discovery.kinds.kind import SourceError, entries_of
from controlplane.discovery.listing import Listing
from routing.contract.names import is_slug

_NO_SLUG = re.compile(r"[^a-z0-9._-]+")


class Conditions(msgspec.Struct):
    terminating: bool | None = None


class TargetRef(msgspec.Struct):
    kind: str = ""
    name: str = ""


class Endpoint(msgspec.Struct, rename="camel"):
    addresses: list[str] | None = None
    conditions: Conditions | None = None
    target_ref: TargetRef | None = None
    zone: str | None = None


class EndpointPort(msgspec.Struct):
    name: str | None = None
    port: int | None = None


class ObjectMeta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class EndpointSlice(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta
    address_type: str = "IPv4"
    endpoints: list[Endpoint] | None = None
    ports: list[EndpointPort] | None = None


PodLabels = Mapping[str, Mapping[str, str]]
"""Pod → its labels."""


def listing_of(
    slices: Iterable[EndpointSlice],
    pods: PodLabels,
    settings: Mapping[str, Any],
    template: Mapping[str, Any],
) -> Listing:
    """``settings``: the group ``kubernetes`` of a source, with its defaults. Raises SourceError."""
    staying: dict[str, dict[str, object]] = {}
    leaving: set[str] = set()
    for one in sorted(slices, key=lambda one: (one.address_type != "IPv4", one.metadata.name)):
        if not one.endpoints:
            continue
        port = _port(one, settings["port"])
        for endpoint in one.endpoints:
            name = _name(endpoint, one)
            if endpoint.conditions is not None and endpoint.conditions.terminating:
                leaving.add(name)
            elif name not in staying:
                staying[name] = _replica(name, endpoint, one, port, pods, settings)
    note = ""
    if not staying and not leaving:
        note = f"service {settings['service']} in namespace {settings['namespace']} has no endpoints"
    entries = entries_of([staying[name] for name in sorted(staying)], template, "")
    return Listing(entries, leaving=frozenset(leaving - staying.keys()), note=note)


def _replica(
    name: str,
    endpoint: Endpoint,
    of: EndpointSlice,
    port: int,
    pods: PodLabels,
    settings: Mapping[str, Any],
) -> dict[str, object]:
    address = _address(endpoint, of)
    host = f"[{address}]" if ":" in address else address
    replica: dict[str, object] = {
        "name": name,
        "url": f"{settings['scheme']}://{host}:{port}{settings['path_prefix']}",
    }
    labels: dict[str, str] = dict(of.metadata.labels or {})
    if endpoint.target_ref is not None:
        labels |= pods.get(endpoint.target_ref.name, {})
    if endpoint.zone and "site" not in settings["labels"]:
        replica["site"] = _slug(endpoint.zone)
    for field, label in settings["labels"].items():
        if value := labels.get(label):
            replica[field] = value if field == "version" else _slug(value)
    return replica


def _port(of: EndpointSlice, wanted: str) -> int:
    """Raises SourceError."""
    if wanted.isdecimal():
        return int(wanted)
    ports = {one.name or "": one.port for one in of.ports or () if one.port}
    if wanted and wanted not in ports:
        there = ", ".join(sorted(filter(None, ports))) or "no name"
        raise SourceError(f'no port of the service has the name "{wanted}"; there is {there}')
    if not wanted and len(ports) != 1:
        there = ", ".join(sorted(ports)) or "none"
        raise SourceError(f"the service has not just one port ({there}): set kubernetes.port")
    found = ports[wanted] if wanted else next(iter(ports.values()))
    assert found is not None
    return found


def _address(endpoint: Endpoint, of: EndpointSlice) -> str:
    """Raises SourceError: without its address a list is not whole."""
    if not endpoint.addresses or not endpoint.addresses[0]:
        raise SourceError(f"an endpoint of slice {of.metadata.name} has no address")
    return endpoint.addresses[0]


def _name(endpoint: Endpoint, of: EndpointSlice) -> str:
    target = endpoint.target_ref
    name = target.name if target is not None and target.name else _address(endpoint, of).lower()
    if ":" in name:
        try:
            name = ipaddress.ip_address(name).exploded.replace(":", "-")
        except ValueError:
            raise SourceError(f"{name} in slice {of.metadata.name} is no address") from None
    return (
        name
        if is_slug(name)
        else f"{name[:40].strip('.-_')}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    )


def _slug(text: str) -> str:
    """As hardware classes and sites are named: ``NVIDIA-H100-80GB-HBM3`` is ``nvidia-h100-80gb-hbm3``."""
    return _NO_SLUG.sub("-", text.lower()).strip("-._")[:63].rstrip("-._")
