"""Lease rules: what a replica that registers itself may say, by the source that it registers at."""

from collections.abc import Mapping
from typing import Any

from controlplane.models import DiscoverySource, Event, Replica
from controlplane.services.errors import Conflict, FieldError, Invalid
from controlplane.services.replicas import problems_beside
from controlplane.services.unit_of_work import unit_of_work
from controlplane.services.validation import accepted
from routing.contract.addresses import parse_base_url
from routing.contract.field_rules import Problems
from routing.contract.fleet_file.sources.lease import LEASE_REQUEST, is_allowed
from routing.contract.names import checked_slug


def checked(source: DiscoverySource, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Invalid, and Conflict where the name is somebody else's."""
    problems: Problems = []
    kept = LEASE_REQUEST.read_fields(settings, "", problems)
    template = source.settings.get("replica", {})
    beside = problems_beside({**template, **settings}, adapters=source.fleet.adapters)
    kept = accepted((kept, problems), beside)
    try:
        checked_slug(name)
    except ValueError as error:
        raise Invalid([FieldError("", str(error))]) from None
    host = parse_base_url(kept["url"]).host
    allow = source.settings["lease"]["allow"]
    if not is_allowed(host, allow):
        words = (
            f"{host} is not among the hosts that source {source.name} allows ({', '.join(allow[:20])}): "
            "register another address, or have an administrator add it to lease.allow of the source"
        )
        raise Invalid([FieldError("/url", words)])
    taken = Replica.objects.filter(fleet=source.fleet, name=name).exclude(owner__source=source)
    if taken.exists():
        raise Conflict(
            f"Fleet {source.fleet.name} has a replica {name} that source {source.name} has not registered: "
            "choose another name, or remove that one."
        )
    return {key: value for key, value in kept.items() if value is not None}


def refuse_claim(name: str, url: str, left_s: float) -> None:
    """Another server holds the lease. Raises Conflict, which says who and the cure."""
    words = (
        f"{url} holds the lease of {name}, for {max(left_s, 1):.0f} s more unless it renews: two servers "
        "cannot have one name. Choose another name; if that server is gone, release its lease (DELETE) or "
        "let it run out."
    )
    raise Conflict(words, [FieldError("/url", words)])


def refuse_release(name: str, url: str) -> None:
    """Raises Conflict: the replica is another server's by now."""
    raise Conflict(f"{url} holds the lease of {name}: it is released by that one, or without url.")


def tell_of_claim(source: DiscoverySource, name: str, url: str, holder: str) -> None:
    """On the timeline, once for as long as claims are remembered."""
    with unit_of_work(f"source {source.name}") as write:
        text = f"source {source.name}: {url} claims the name {name}, which {holder} has, and is refused"
        write.event(Event.Kind.SYSTEM, text, fleet=source.fleet, replica=name)
