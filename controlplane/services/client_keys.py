"""Client keys: made, changed and revoked. The key itself is answered once, by :func:`create`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlplane.models import ClientKey, Event, Fleet, TableState
from controlplane.services import effective_settings, keys_required
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.unit_of_work import (
    UnitOfWork,
    check_version,
    edit_conflict,
    table_state,
    unit_of_work,
)
from controlplane.services.validation import accepted, refuse, unknown_name
from routing.contract.client_keys import SHOWN_CHARACTERS, key_hash, new_key, new_salt, salt_bytes
from routing.contract.field_rules import FieldProblem, ListOf, Problems, Section, Text
from routing.contract.key_limit_rules import KEY_LIMITS
from routing.contract.table import Version

LONGEST_NAME = 100
MOST_FLEETS = 1000
FIRST = "It is the first key: from now on every request needs a key."


def label(text: str) -> str:
    """What people call a key or token. Raises ValueError."""
    name = text.strip()
    if not name:
        raise ValueError("is empty: say what the key is for")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"must have 1 to {LONGEST_NAME} printable characters")
    return name


CLIENT_KEY = Section(
    words="A client key of the proxy.",
    what="a client key",
    fields={
        "name": Text(words="What it is for.", what="name", check=label, required='"website"'),
        "fleets": ListOf(
            words="Fleets that it may use. Not set: every fleet, including future ones.",
            item=Text(words="Name of a fleet.", what="name of a fleet"),
            plural="fleets",
            at_most=MOST_FLEETS,
            distinct=True,
            nullable=True,
        ),
        **KEY_LIMITS,
    },
)


@dataclass(frozen=True, slots=True)
class KeyChange:
    row: ClientKey
    lines: Sequence[str]
    """What changed, one line each; empty: everything already was as asked for."""
    version: Version
    """Of the manifest that shows the change to proxies."""
    unit_of_work: UnitOfWork
    key: str = ""
    """The key in clear, of a new one only. It cannot be read again."""
    effect: str = ""
    """What happens to requests without a key from now on, where this is the first or last key; else empty."""

    @property
    def published(self) -> bool:
        """Whether Redis holds the change. False: Redis is away; it follows within seconds of its return."""
        return self.unit_of_work.published is not False if self.lines else True


def create(settings: Mapping[str, Any], actor: str) -> KeyChange:
    """Raises Invalid, Conflict."""
    with unit_of_work(actor) as write:
        kept = _checked(settings, partial=False)
        fleets = _fleets(kept)
        _check_name(kept["name"], None)
        is_first = not keys_required.in_force() and not table_state().keys_required
        key = new_key()
        row = ClientKey.objects.create(
            name=kept["name"],
            prefix=key[:SHOWN_CHARACTERS],
            key_hash=key_hash(salt_bytes(_salt()), key.encode()),
            all_fleets=fleets is None,
            **{name: kept[name] for name in KEY_LIMITS if name in kept},
            created_by=actor,
        )
        row.fleets.set(fleets or ())
        write.audit("client_keys.create", row.name, after=described(row))
        opened = "every fleet" if row.all_fleets else ", ".join(fleet_names(row))
        effect = FIRST if is_first else ""
        if is_first:
            keys_required.put(write, True)
        write.event(Event.Kind.ADMIN, f"{actor} made client key {row} for {opened}. {effect}".rstrip())
        return _change(write, row, ["created"], key, effect)


def update(pk: int, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None) -> KeyChange:
    """Another name, other fleets (``None``: every one), other limits (``None``: no limit).

    Raises NotFound, Invalid, Stale, Conflict.
    """
    with unit_of_work(actor) as write:
        row = key_of(pk, lock=True)
        check_version(f"Client key {row}", row.edit_version, if_version)
        kept = _checked(changes, partial=True)
        fleets = _fleets(kept)
        if row.revoked_at is not None:
            raise Conflict(f"Client key {row} has been revoked permanently: create a new one.")
        if "name" in kept:
            _check_name(kept["name"], row)
        before = described(row)
        _put(row, kept, fleets)
        after = described(row)
        lines = effective_settings.differences(_shown(before), _shown(after))
        if lines:
            write.audit("client_keys.update", row.name, before, after)
            write.event(Event.Kind.ADMIN, f"{actor} changed client key {row}: {'; '.join(lines)}")
        return _change(write, row, lines)


def revoke(pk: int, actor: str, *, if_version: int | None = None) -> KeyChange:
    """It opens nothing any more, and cannot be brought back. Revoked already: nothing is written.

    Raises NotFound, Stale.
    """
    with unit_of_work(actor) as write:
        row = key_of(pk, lock=True)
        check_version(f"Client key {row}", row.edit_version, if_version)
        if row.revoked_at is not None:
            return _change(write, row, [])
        before = described(row)
        _save(row, revoked_at=timezone.now(), revoked_by=actor[:150])
        write.audit("client_keys.revoke", row.name, before)
        effect = "" if keys_required.in_force() else _last_words(table_state().keys_required)
        write.event(Event.Kind.ADMIN, f"{actor} revoked client key {row}. {effect}".rstrip())
        return _change(write, row, ["revoked"], effect=effect)


def key_of(pk: int, *, lock: bool = False) -> ClientKey:
    """Raises NotFound."""
    rows = ClientKey.objects.select_for_update() if lock else ClientKey.objects.all()
    row = rows.filter(pk=pk).first()
    if row is None:
        raise NotFound(f"There is no client key with the id {pk}: GET /api/v1/client-keys lists all.")
    return row


def fleet_names(row: ClientKey) -> list[str]:
    """Sorted; empty also where it opens every fleet."""
    return sorted(fleet.name for fleet in row.fleets.all())


def described(row: ClientKey) -> dict[str, Any]:
    """The row as audit entries keep it: no hash, and of the key what people may see."""
    return {
        "name": row.name,
        "prefix": row.prefix,
        "fleets": None if row.all_fleets else fleet_names(row),
        **limits(row),
    }


def limits(row: ClientKey) -> dict[str, Any]:
    """What it may use, by the names of ``KEY_LIMITS``."""
    return {name: getattr(row, name) for name in KEY_LIMITS}


def _shown(described: Mapping[str, Any]) -> dict[str, Any]:
    fleets = described["fleets"]
    return {**described, "fleets": "every fleet" if fleets is None else fleets}


def _checked(settings: Mapping[str, Any], *, partial: bool) -> dict[str, Any]:
    problems: Problems = []
    kept = CLIENT_KEY.read_fields(settings, "", problems, partial=partial)
    if kept.get("fleets") == [] and not problems:
        words = "a key without fleets is useless: name some, or null for every fleet"
        problems.append(FieldProblem("/fleets", words))
    return accepted((kept, problems))


def _fleets(kept: Mapping[str, Any]) -> list[Fleet] | None:
    """The rows of the fleets named; ``None``: every fleet, or not mentioned. Raises Invalid."""
    names = kept.get("fleets")
    if names is None:
        return None
    rows = {fleet.name: fleet for fleet in Fleet.objects.filter(name__in=names)}
    known = Fleet.objects.values_list("name", flat=True)
    refuse(
        FieldProblem(f"/fleets/{index}", unknown_name("fleet", name, known))
        for index, name in enumerate(names)
        if name not in rows
    )
    return list(rows.values())


def _check_name(name: str, row: ClientKey | None) -> None:
    others = ClientKey.objects.filter(name=name, revoked_at=None)
    if (others.exclude(pk=row.pk) if row is not None else others).exists():
        words = f"There is a client key {name} already: choose another name, or revoke that one first."
        raise Conflict(words, [FieldError("/name", words)])


def _put(row: ClientKey, kept: Mapping[str, Any], fleets: list[Fleet] | None) -> None:
    """Writes what differs."""
    before = {"name": row.name, **limits(row)}
    fields = {name: kept.get(name, value) for name, value in before.items()}
    all_fleets = fleets is None if "fleets" in kept else row.all_fleets
    wanted = {fleet.pk for fleet in fleets or ()} if "fleets" in kept else None
    present = set(row.fleets.values_list("pk", flat=True))
    if fields == before and all_fleets == row.all_fleets and wanted in (None, present):
        return
    _save(row, **fields, all_fleets=all_fleets)
    if wanted is not None:
        row.fleets.set(wanted)


def _save(row: ClientKey, **fields: Any) -> None:
    """Compare-and-set. Raises Conflict on a race."""
    same = ClientKey.objects.filter(pk=row.pk, edit_version=row.edit_version)
    if not same.update(**fields, edit_version=F("edit_version") + 1):
        raise edit_conflict(f"client key {row}")
    row.refresh_from_db()


def _salt() -> str:
    """The installation's; the first key brings it along."""
    state = table_state()
    if not state.key_salt:
        state.key_salt = new_salt()
        TableState.objects.filter(pk=state.pk).update(key_salt=state.key_salt)
    return state.key_salt


def _last_words(required: bool) -> str:
    return f"It was the last key: {keys_required.effect(required, 0)}."


def _change(
    write: UnitOfWork, row: ClientKey, lines: Sequence[str], key: str = "", effect: str = ""
) -> KeyChange:
    if lines:
        write.manifest_changed()
    state = table_state()
    return KeyChange(row, lines, Version(state.epoch, state.manifest_version), write, key, effect)
