"""Accelerators: devices whose memory replicas of all fleets share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from controlplane.models import Accelerator, Event
from controlplane.services import device_memory, effective_settings
from controlplane.services.errors import Conflict, FieldError
from controlplane.services.lookup import accelerator_named
from controlplane.services.unit_of_work import (
    UnitOfWork,
    check_version,
    edit_conflict,
    table_state,
    unit_of_work,
)
from controlplane.services.validation import accepted, immutable
from routing.contract.fleet_file.rules import check_accelerator
from routing.contract.table import Version

_NAME_STAYS = (
    "an accelerator's name cannot change, because replicas and fleet files refer to it: make a new one, "
    "give it to the replicas, then delete this one"
)


@dataclass(frozen=True, slots=True)
class AcceleratorChange:
    accelerator: Accelerator
    lines: Sequence[str]
    """What changed, one line each; empty: everything already was as asked for."""
    version: Version
    """Of the manifest that shows the change to proxies."""
    unit_of_work: UnitOfWork

    @property
    def published(self) -> bool:
        """Whether Redis holds the change. False: Redis is away; it follows within seconds of its return."""
        return self.unit_of_work.published is not False if self.lines else True


def create(settings: Mapping[str, Any], actor: str) -> AcceleratorChange:
    """Raises Invalid, Conflict."""
    with unit_of_work(actor) as write:
        accelerator = insert(write, accepted(check_accelerator(settings)))
        return _change(write, accelerator, ["created"])


def insert(write: UnitOfWork, kept: Mapping[str, Any]) -> Accelerator:
    if Accelerator.objects.filter(name=kept["name"]).exists():
        words = (
            f"There is an accelerator {kept['name']} already: choose another name, or change that one "
            f"at /api/v1/accelerators/{kept['name']}."
        )
        raise Conflict(words, [FieldError("/name", words)])
    accelerator = Accelerator.objects.create(**kept)
    write.manifest_changed()
    write.audit("accelerators.create", accelerator.name, after=described(accelerator))
    return accelerator


def update(
    name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None
) -> AcceleratorChange:
    """Raises NotFound, Invalid, Stale, and Conflict where replicas hold more than would be left."""
    with unit_of_work(actor) as write:
        accelerator = accelerator_named(name, lock=True)
        check_version(f"Accelerator {name}", accelerator.edit_version, if_version)
        given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
        elsewhere = immutable(given, ["name"], _NAME_STAYS)
        kept = accepted(check_accelerator(given, partial=True), elsewhere)
        return _change(write, accelerator, put(write, accelerator, kept))


def put(write: UnitOfWork, accelerator: Accelerator, kept: Mapping[str, Any]) -> list[str]:
    """Saves checked settings. Returns what changed; nothing: nothing is written."""
    before = described(accelerator)
    after = {**before, **kept}
    lines = effective_settings.differences(*device_memory.in_words(before, after), f"{accelerator.name}.")
    if not lines:
        return []
    same = Accelerator.objects.filter(pk=accelerator.pk, edit_version=accelerator.edit_version)
    if not same.update(**after, edit_version=F("edit_version") + 1):
        raise edit_conflict(f"accelerator {accelerator.name}")
    accelerator.refresh_from_db()
    field = "memory_bytes" if after["memory_bytes"] != before["memory_bytes"] else "headroom_percent"
    write.check_memory([accelerator.name], f"/{field}")
    write.manifest_changed()
    write.audit("accelerators.update", accelerator.name, before, after)
    write.event(Event.Kind.ADMIN, f"{write.actor} changed accelerator {'; '.join(lines)}")
    return lines


def delete(name: str, actor: str, *, if_version: int | None = None) -> None:
    """Raises NotFound, Stale, and Conflict while replicas run on it."""
    with unit_of_work(actor) as write:
        accelerator = accelerator_named(name, lock=True)
        check_version(f"Accelerator {name}", accelerator.edit_version, if_version)
        users = accelerator.replicas.select_related("fleet").order_by("fleet__name", "name")
        listed = [str(replica) for replica in users[:6]]
        if listed:
            more = " and others" if len(listed) > 5 else ""
            raise Conflict(
                f"Accelerator {name} is in use by {', '.join(listed[:5])}{more}: give them another one, "
                "or an empty list, first."
            )
        before = described(accelerator)
        accelerator.delete()
        write.manifest_changed()
        write.audit("accelerators.delete", name, before)


def described(accelerator: Accelerator) -> dict[str, Any]:
    """The row as audit entries keep it."""
    return {"memory_bytes": accelerator.memory_bytes, "headroom_percent": accelerator.headroom_percent}


def _change(write: UnitOfWork, accelerator: Accelerator, lines: Sequence[str]) -> AcceleratorChange:
    state = table_state()
    return AcceleratorChange(accelerator, lines, Version(state.epoch, state.manifest_version), write)
