"""Owners of replicas: a replica that a source registered is the source's to change and to remove.

People steer its traffic (weight, admin state, whether its streams are moved); what it is, and whether it is
there, the source says.
"""

from collections.abc import Iterable

from controlplane.models import DiscoverySource, Replica, ReplicaOwner
from controlplane.services.errors import Conflict, FieldError
from routing.contract.fleet_file.sources.source_rules import PEOPLES_FIELDS


def owner_of(replica: Replica) -> ReplicaOwner | None:
    """``None``: it is people's."""
    return ReplicaOwner.objects.select_related("source").filter(replica=replica).first()


def refuse_change(replica: Replica, fields: Iterable[str]) -> None:
    """Raises Conflict where one of the ``fields`` is not people's to change."""
    fields = sorted(set(fields) - PEOPLES_FIELDS)
    if fields and (owner := owner_of(replica)) is not None:
        words = (
            f"{_managed(replica, owner.source)}, which says what it is: change it there. Here weight, "
            "admin_state and move can be changed."
        )
        raise Conflict(words, [FieldError(f"/{name}", words) for name in fields])


def refuse_removal(replica: Replica) -> None:
    """Raises Conflict where it is a source's."""
    if (owner := owner_of(replica)) is not None:
        raise Conflict(
            f"{_managed(replica, owner.source)}, which would register it again: remove it there, set "
            "admin_state to maintenance, or delete the source first, which keeps its replicas."
        )


def refuse_in_file(replica: Replica, source: DiscoverySource) -> None:
    """Raises Conflict: a fleet file lists it."""
    raise Conflict(
        f"{_managed(replica, source)}: remove it from the file, which leaves replicas of sources as they "
        "are, or delete the source first."
    )


def _managed(replica: Replica, source: DiscoverySource) -> str:
    return f"Replica {replica} is managed by source {source.name} ({source.kind})"
