"""Destinations: making, changing and deleting where notifications go, and trying one."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlplane.alerts import destination_url, sending, signing
from controlplane.alerts.evaluator import alerts_url
from controlplane.alerts.message import test_message
from controlplane.alerts.send_result import SendResult
from controlplane.models import AlertDestination, Fleet
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.lookup import no_such_fleet
from controlplane.services.unit_of_work import UnitOfWork, check_version, edit_conflict, unit_of_work
from controlplane.services.validation import accepted, immutable, unknown_name
from routing.contract.field_rules import Choice, FieldProblem, Flag, ListOf, Problems, Section, Text, seconds
from routing.contract.names import checked_slug
from routing.contract.secret_references import credential_reference

KINDS = tuple(AlertDestination.DestinationKind.values)
REPEAT_S = 4 * 3600.0
LOWEST = ("warning", "critical")
MOST_ADDRESSES = 20
MOST_FLEETS = 200


def _address(text: str) -> str:
    local, at, domain = text.strip().rpartition("@")
    if not (local and at and domain) or not text.isprintable() or len(text) > 254 or set(text) & set(" ,;<>"):
        raise ValueError(f'"{text[:60]}" is no e-mail address: write it as anna@example.com')
    return text.strip()


def _credential(text: str) -> str:
    try:
        return credential_reference(text)
    except ValueError:
        raise ValueError(
            "must be a reference to a bearer token: env:NAME or file:/whole/path, not the token, and none of "
            "Switchyard's own"
        ) from None


def _check_kind(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    """What a kind of destination needs, and what it cannot have."""
    kind = fields.get("kind")
    if kind == AlertDestination.DestinationKind.EMAIL:
        if not fields.get("to"):
            problems.append(FieldProblem(f"{at}/to", "who is to get the e-mail: give at least one address"))
        for name in ("url", "credential"):
            if fields.get(name):
                problems.append(FieldProblem(f"{at}/{name}", "an e-mail has none: remove it"))
    elif kind in KINDS:
        if not fields.get("url"):
            problems.append(FieldProblem(f"{at}/url", f"where {kind} listens: give its URL"))
        if fields.get("to"):
            problems.append(FieldProblem(f"{at}/to", "only a destination of kind email has addresses"))


DESTINATION = Section(
    words="a destination",
    what="a destination",
    fields={
        "name": Text(words="its name", check=checked_slug, what="name", required='"pager"'),
        "kind": Choice(words="how it is told", options=KINDS, required='"webhook"'),
        "url": Text(words="its URL, or a reference to one", check=destination_url.checked),
        "credential": Text(words="reference to a bearer token", check=_credential),
        "to": ListOf(
            words="e-mail addresses",
            item=Text(words="one", check=_address),
            plural="e-mail addresses",
            at_most=MOST_ADDRESSES,
            distinct=True,
        ),
        "severity": Choice(words="the lowest that it is told of", options=LOWEST),
        "fleets": ListOf(
            words="the only fleets that it is told of",
            item=Text(words="one"),
            plural="fleets",
            at_most=MOST_FLEETS,
            distinct=True,
        ),
        "repeat_s": seconds("after how long it is told again of what still fires", 60, 7 * 86400),
        "enabled": Flag(words="whether it is told"),
        "new_secret": Flag(words="make a new signing secret"),
    },
    cross_check=_check_kind,
)


@dataclass(frozen=True, slots=True)
class WrittenDestination:
    row: AlertDestination
    secret: str
    """Of a new one or a new secret: shown this once. Empty: there is none, or it is known."""


def destination_named(name: str, *, lock: bool = False) -> AlertDestination:
    """Raises NotFound."""
    rows = AlertDestination.objects.select_for_update() if lock else AlertDestination.objects.all()
    row = rows.filter(name=name).first()
    if row is None:
        words = unknown_name("destination", name, AlertDestination.objects.values_list("name", flat=True))
        raise NotFound(f"{words[0].upper()}{words[1:]}{'' if words.endswith('?') else '.'}")
    return row


def create(settings: Mapping[str, Any], actor: str) -> WrittenDestination:
    """Raises Invalid, Conflict."""
    problems: Problems = []
    kept = accepted((DESTINATION.read_fields(settings, "", problems), problems), _unreachable(settings))
    with unit_of_work(actor) as write:
        accepted((kept, _unknown_fleets(kept)))
        if AlertDestination.objects.filter(name=kept["name"]).exists():
            words = f"There is a destination {kept['name']} already: choose another name, or change that one."
            raise Conflict(words, [FieldError("/name", words)])
        columns = {"repeat_s": REPEAT_S, **_columns(kept)}
        row = AlertDestination.objects.create(
            name=kept["name"], kind=kept["kind"], created_by=actor, **columns
        )
        write.audit("alert-destination.create", row.name, after=settings_of(row))
    return WrittenDestination(row, _secret(row))


def update(
    name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None
) -> WrittenDestination:
    """Raises NotFound, Invalid, Stale, Conflict."""
    unreachable = _unreachable(changes)
    with unit_of_work(actor) as write:
        row = destination_named(name, lock=True)
        check_version(f"Destination {name}", row.edit_version, if_version)
        stays = "cannot change: make another destination, and delete this one"
        given = {key: value for key, value in changes.items() if getattr(row, key, None) != value}
        fixed = immutable(given, ["name", "kind"], stays)
        given = {key: value for key, value in given.items() if key not in ("name", "kind")}
        whole = {"kind": row.kind, "url": row.url, "credential": row.credential, "to": row.to, **given}
        problems: Problems = []
        checked = DESTINATION.read_fields(whole, "", problems, partial=True)
        problems = [one for one in problems if one.pointer.split("/")[1] in (*given, "url", "to")]
        kept = accepted((checked, problems), [*fixed, *unreachable])
        kept = {key: value for key, value in kept.items() if key in given}
        accepted((kept, _unknown_fleets(kept)))
        renewed = _put(write, row, kept)
    return WrittenDestination(row, _secret(row) if renewed else "")


def delete(name: str, actor: str, *, if_version: int | None = None) -> None:
    """With what waits for it. Raises NotFound, Stale."""
    with unit_of_work(actor) as write:
        row = destination_named(name, lock=True)
        check_version(f"Destination {name}", row.edit_version, if_version)
        before = settings_of(row)
        row.delete()
        write.audit("alert-destination.delete", name, before=before)


def test(name: str, actor: str) -> SendResult:
    """Send a message that says it is a test, now. Raises NotFound."""
    row = destination_named(name)
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    result = asyncio.run(sending.send(row, test_message(uuid.uuid4().hex, row.name, at, alerts_url())))
    with unit_of_work(actor) as write:
        tested = AlertDestination.objects.filter(pk=row.pk)
        tested.update(last_answer=result.words[:300], last_taken=result.taken, last_sent_at=timezone.now())
        if result.taken:
            tested.update(failing_since=None)
        write.audit("alert-destination.test", name, after={"taken": result.taken, "answer": result.words})
    return result


def settings_of(row: AlertDestination) -> dict[str, Any]:
    """As the audit log and the API have it: without what is secret."""
    return {
        "kind": row.kind,
        "enabled": row.enabled,
        "url": destination_url.shown(row.url) or None,
        "credential": row.credential or None,
        "to": list(row.to),
        "severity": "critical" if row.only_critical else "warning",
        "fleets": list(row.fleets),
        "repeat_s": row.repeat_s,
    }


def _put(write: UnitOfWork, row: AlertDestination, kept: Mapping[str, Any]) -> bool:
    """Saves. Whether it has a new secret."""
    before, version = settings_of(row), row.edit_version
    renewed = bool(kept.get("new_secret"))
    columns = {**_columns(kept), "edit_version": F("edit_version") + 1}
    if renewed:
        columns["secret_version"] = F("secret_version") + 1
    if not AlertDestination.objects.filter(pk=row.pk, edit_version=version).update(**columns):
        raise edit_conflict(f"destination {row.name}")
    row.refresh_from_db()
    after = settings_of(row) | ({"secret": "renewed"} if renewed else {})
    write.audit("alert-destination.update", row.name, before, after)
    return renewed


def _columns(kept: Mapping[str, Any]) -> dict[str, Any]:
    columns = {
        name: kept[name]
        for name in ("url", "credential", "to", "fleets", "repeat_s", "enabled")
        if name in kept
    }
    if "severity" in kept:
        columns["only_critical"] = kept["severity"] == "critical"
    return columns


def _secret(row: AlertDestination) -> str:
    return signing.secret_shown_once(row) if row.kind == AlertDestination.DestinationKind.WEBHOOK else ""


def _unreachable(settings: Mapping[str, Any]) -> list[FieldProblem]:
    """Before the transaction: names are looked up."""
    url = settings.get("url")
    if not isinstance(url, str) or not url:
        return []
    try:
        destination_url.checked(url)
    except ValueError:
        return []  # said by the field's own check
    try:
        destination_url.refuse_denied_addresses(url)
    except ValueError as error:
        return [FieldProblem("/url", str(error))]
    return []


def _unknown_fleets(kept: Mapping[str, Any]) -> list[FieldProblem]:
    named = kept.get("fleets") or []
    known = set(Fleet.objects.filter(name__in=named).values_list("name", flat=True)) if named else set()
    every = Fleet.objects.values_list("name", flat=True)
    return [
        FieldProblem(f"/fleets/{index}", no_such_fleet(name, every))
        for index, name in enumerate(named)
        if name not in known
    ]
