"""References to secrets in settings of fleets, which name files and variables of proxies and probes.

Whoever may set any reference could have another team's token sent to a replica of their own. So a role for
some fleets only may set those that its fleets have already; the others are set by a role for all fleets.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controlplane.models import Fleet, Replica
from routing.contract.field_rules import below


def references_in(settings: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """(JSON pointer, reference) of settings as the API is sent them, of a fleet, a replica or a trial."""
    if isinstance(credential := settings.get("credential"), str) and credential:
        yield below(at, "credential"), credential
    tls = settings.get("tls")
    if isinstance(tls, Mapping) and isinstance(ca := tls.get("ca"), str) and ca:
        yield below(below(at, "tls"), "ca"), ca
    replicas = settings.get("replicas")
    for index, replica in enumerate(replicas if isinstance(replicas, list) else ()):
        if isinstance(replica, Mapping):
            yield from references_in(replica, below(below(at, "replicas"), index))


def references_of(fleets: Iterable[str]) -> set[str]:
    """Those that these fleets and their replicas have, by the fleets' names."""
    rows = Fleet.objects.filter(name__in=list(fleets))
    known = {
        reference
        for credential, tls in rows.values_list("credential", "tls")
        for reference in (credential, tls.get("ca", ""))
    }
    known.update(Replica.objects.filter(fleet__in=rows).values_list("credential", flat=True))
    return known - {""}
