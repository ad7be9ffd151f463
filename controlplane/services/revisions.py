"""Numbered revisions: policy and weights together, so that every live change can be rolled back."""

from typing import Any

from controlplane.models import Fleet, PolicyRevision, Replica
from controlplane.services.unit_of_work import UnitOfWork


def weights_of(fleet: Fleet) -> dict[str, float | None]:
    """Replica name → weight as the operator set it; None: the hardware class's."""
    return dict(Replica.objects.filter(fleet=fleet).order_by("name").values_list("name", "weight"))


def record(unit_of_work: UnitOfWork, fleet: Fleet, summary: str, **fields: Any) -> int:
    """Saves the fleet with ``fields`` and one revision more, which says how it now is."""
    number = fleet.revision + 1
    unit_of_work.save_fleet(fleet, revision=number, **fields)
    _row(unit_of_work, fleet, summary)
    return number


def record_first(unit_of_work: UnitOfWork, fleet: Fleet) -> None:
    """Of a fleet that has just been made."""
    _row(unit_of_work, fleet, "created")


def _row(unit_of_work: UnitOfWork, fleet: Fleet, summary: str) -> None:
    PolicyRevision.objects.create(
        fleet=fleet,
        number=fleet.revision,
        policy=fleet.policy,
        weights=weights_of(fleet),
        actor=unit_of_work.actor,
        summary=summary[:300],
    )
