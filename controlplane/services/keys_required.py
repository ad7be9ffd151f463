"""“Keys required”: whether every request through a proxy needs a client key, also while none is in force.

The first key turns it on. Revoking the last one does not turn it off: then nobody is served until a key is
made, or until somebody turns it off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.models import ClientKey, Event, TableState
from controlplane.publishing.snapshots import current_state
from controlplane.services.unit_of_work import UnitOfWork, table_state, unit_of_work
from controlplane.services.validation import accepted
from routing.contract.field_rules import Flag, Problems, Section
from routing.contract.table import Version

SETTINGS = Section(
    words="Settings of all client keys.",
    what="the settings of client keys",
    fields={
        "required": Flag(
            words="Whether every request needs a client key. The first key turns it on.",
            required="true",
        )
    },
)

_NOBODY = "no request is served until a client key is made: proxies answer 401"
_ONLY_KEYS = "only requests with a client key are served; others get 401"
_OPEN = (
    "everybody who can reach a proxy on a local address, or one with --open, is served without a client key; "
    "other proxies go on requiring one"
)


@dataclass(frozen=True, slots=True)
class RequiredChange:
    required: bool
    keys: int
    """Client keys in force."""
    lines: Sequence[str]
    """What changed, one line each; empty: it already was as asked for."""
    version: Version
    """Of the manifest that shows the change to proxies."""
    unit_of_work: UnitOfWork

    @property
    def published(self) -> bool:
        """As :attr:`controlplane.services.client_keys.KeyChange.published`."""
        return self.unit_of_work.published is not False if self.lines else True


def read() -> tuple[bool, int]:
    """Whether keys are required, and how many are in force."""
    return current_state().keys_required, in_force()


def in_force() -> int:
    return ClientKey.objects.filter(revoked_at=None).count()


def effect(required: bool, keys: int) -> str:
    """What happens to requests, for people."""
    if not required:
        return _OPEN
    return _ONLY_KEYS if keys else _NOBODY


def change(settings: Mapping[str, Any], actor: str) -> RequiredChange:
    """Raises Invalid."""
    with unit_of_work(actor) as write:
        problems: Problems = []
        kept = SETTINGS.read_fields(settings, "", problems)
        required = accepted((kept, problems))["required"]
        state, keys = table_state(), in_force()
        lines = []
        if required != state.keys_required:
            put(write, required)
            lines = [f"keys required: {_word(state.keys_required)} → {_word(required)}"]
            turned = "turned on" if required else "turned off"
            write.event(Event.Kind.ADMIN, f"{actor} {turned} “keys required”: {effect(required, keys)}.")
        state = table_state()
        return RequiredChange(required, keys, lines, Version(state.epoch, state.manifest_version), write)


def put(write: UnitOfWork, required: bool) -> None:
    """Write it, within a unit of work."""
    TableState.objects.filter(pk=table_state().pk).update(keys_required=required)
    write.audit("client_key_settings.update", "required", {"required": not required}, {"required": required})
    write.manifest_changed()


def _word(required: bool) -> str:
    return "on" if required else "off"
