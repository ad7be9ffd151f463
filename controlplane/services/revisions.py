"""Numbered revisions: policy and weights together, so that every live change can be rolled back."""

from typing import Any

from controlplane.models import Fleet, PolicyRevision, Replica
from controlplane.services.writing import Writing


def weights_of(fleet: Fleet) -> dict[str, float | None]:
    """Replica name → weight as the operator set it; None: the hardware class's."""
    return dict(Replica.objects.filter(fleet=fleet).order_by("name").values_list("name", "weight"))


def record(writing: Writing, fleet: Fleet, summary: str, **fields: Any) -> int:
    """Saves the fleet with ``fields`` and one revision more, which says how it now is."""
    number = fleet.revision + 1
    writing.save_fleet(fleet, revision=number, **fields)
    _row(writing, fleet, summary)
    return number


def record_first(writing: Writing, fleet: Fleet) -> None:
    """Of a fleet that has just been made."""
    _row(writing, fleet, "created")


def _row(writing: Writing, fleet: Fleet, summary: str) -> None:
    PolicyRevision.objects.create(
        fleet=fleet,
        number=fleet.revision,
        policy=fleet.policy,
        weights=weights_of(fleet),
        actor=writing.actor,
        summary=summary[:300],
    )
