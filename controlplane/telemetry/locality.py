"""Locality: which part of the requests stayed at their proxies' own site, and when others are asked. Pure."""

from controlplane.telemetry.db_snapshot import FleetRow, ReplicaRow
from controlplane.telemetry.frames import SiteLive
from controlplane.telemetry.merge import FleetNumbers


def live(fleet: FleetNumbers) -> list[SiteLive]:
    """Of those whose proxies prefer their own and have sent something."""
    return [
        SiteLive(name=name, stayed_per_s=site.stayed_per_s, spilled_per_s=site.spilled_per_s)
        for name, site in sorted(fleet.sites.items())
        if site.stayed_per_s or site.spilled_per_s
    ]


def when_asked(replica: ReplicaRow, of: FleetRow, fleet: FleetNumbers) -> str:
    """When a replica is asked that is elsewhere for every proxy, in words; empty: it is near to one, or sites
    do not matter there."""
    proxies = fleet.sites.keys()
    if not replica.site or not proxies or of.locality.prefer == "none":
        return ""
    here = {other.site for other in of.replicas}
    if replica.site in proxies or any(not own or here.isdisjoint(("", own)) for own in proxies):
        return ""
    return of.locality.when_asked(replica.site, " or ".join(sorted(proxies)))
