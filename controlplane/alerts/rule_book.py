"""Rule book: the alert rules in force, those that come with Switchyard and one's own; and changing them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from django.db.models import F

from controlplane.access.viewer import seen_fleets
from controlplane.alerts import builtin_rules, thresholds
from controlplane.alerts.rule_types import SEVERITIES, RuleInForce, Severity
from controlplane.alerts.thresholds import METRICS, Comparison, Threshold
from controlplane.models import AlertRule, Fleet
from controlplane.services.errors import Conflict, FieldError, NotFound
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import UnitOfWork, check_version, edit_conflict, unit_of_work
from controlplane.services.validation import accepted, immutable, unknown_name
from routing.contract.field_rules import Choice, FieldProblem, Flag, Problems, Section, Text, seconds
from routing.contract.names import checked_slug

DAY_S = 86400.0
_COMMON: Mapping[str, Any] = {
    "enabled": Flag(words="whether it is evaluated"),
    "severity": Choice(words="how urgent it is", options=SEVERITIES),
    "for_s": seconds("how long its condition must hold before it fires", 0, DAY_S),
    "keep_s": seconds("how long its condition must be gone before its alert is resolved", 0, DAY_S),
}
_BUILT_IN = Section(words="a built-in rule", what="a built-in rule", fields=_COMMON)


class QuantityRule(Text):
    """A number, or text with a unit: which, depends on the metric."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        return value

    def kind(self) -> str:
        return "number, or text with a unit"


def _check_name(text: str) -> str:
    name = checked_slug(text)
    if name in BUILT_IN:
        raise ValueError(f"{name} is the name of a built-in rule: choose another")
    return name


def _check_values(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    """Of a threshold with all its fields."""
    metric = fields.get("metric")
    if metric not in METRICS:
        return
    read: dict[str, float] = {}
    for field in ("value", "clear_value"):
        if fields.get(field) is not None:
            try:
                read[field] = thresholds.quantity(str(metric), fields[field])
            except ValueError as error:
                problems.append(FieldProblem(f"{at}/{field}", str(error)))
    if len(read) == 2 and fields.get("comparison") in ("above", "below"):
        gap = read["value"] - read["clear_value"]
        if gap < 0 if fields["comparison"] == "above" else gap > 0:
            words = "below" if fields["comparison"] == "above" else "above"
            problems.append(
                FieldProblem(f"{at}/clear_value", f"must be {words} the value, or the same, or be left out")
            )
    if read.get("value") == 0 and fields.get("comparison") == "below":
        problems.append(FieldProblem(f"{at}/value", f"nothing is below 0: {metric} would never fire"))
    if metric == "error_percent" and read.get("value", 0) >= 100 and fields.get("comparison") == "above":
        problems.append(FieldProblem(f"{at}/value", "nothing is above 100 %: it would never fire"))


THRESHOLD = Section(
    words="a threshold",
    what="an alert rule",
    fields={
        "name": Text(words="its name", check=_check_name, what="name", required='"slow-chat"'),
        **_COMMON,
        "fleet": Text(words="the only fleet that it is for; null: every fleet", nullable=True),
        "metric": Choice(words="what is compared", options=METRICS, required='"p99_s"'),
        "comparison": Choice(
            words="on which side it is wrong", options=("above", "below"), required='"above"'
        ),
        "value": QuantityRule(words="with what it is compared: `0.8` or `800 ms`", required="0.8"),
        "clear_value": QuantityRule(
            words="on whose other side it is well again; null: the value", nullable=True
        ),
    },
    cross_check=_check_values,
)
BUILT_IN: Mapping[str, RuleInForce] = {rule.name: rule for rule in builtin_rules.rules()}


@dataclass(frozen=True, slots=True)
class BookEntry:
    """One rule, whether it is evaluated, and its row if it has one."""

    rule: RuleInForce
    enabled: bool
    row: AlertRule | None

    @property
    def version(self) -> int:
        return self.row.edit_version if self.row is not None else 0


def entries() -> list[BookEntry]:
    """The built-in ones in their order, then one's own by name. One query."""
    rows = {row.name: row for row in AlertRule.objects.select_related("fleet").order_by("name")}
    found = [_built_in(rule, rows.pop(rule.name, None)) for rule in BUILT_IN.values()]
    return found + [BookEntry(_own(row), row.enabled, row) for row in rows.values() if not row.built_in]


def seen_entries() -> list[BookEntry]:
    """Those that whoever asks may know of: no rule of a fleet that they may not see."""
    seen = seen_fleets()
    return [
        one
        for one in entries()
        if seen is None or one.row is None or one.row.fleet is None or one.row.fleet.name in seen
    ]


def in_force() -> list[RuleInForce]:
    return [entry.rule for entry in entries() if entry.enabled]


def entry_named(name: str) -> BookEntry:
    """Raises NotFound."""
    found = seen_entries()
    for entry in found:
        if entry.rule.name == name:
            return entry
    words = unknown_name("alert rule", name, [entry.rule.name for entry in found])
    raise NotFound(f"{words[0].upper()}{words[1:]}{'' if words.endswith('?') else '.'}")


def create(settings: Mapping[str, Any], actor: str) -> BookEntry:
    """A threshold of one's own. Raises Invalid, Conflict."""
    problems: Problems = []
    kept = accepted((THRESHOLD.read_fields(settings, "", problems), problems))
    with unit_of_work(actor) as write:
        if AlertRule.objects.filter(name=kept["name"]).exists():
            words = f"There is an alert rule {kept['name']} already: choose another name, or change that one."
            raise Conflict(words, [FieldError("/name", words)])
        row = AlertRule.objects.create(
            name=kept["name"],
            enabled=kept.get("enabled", True),
            severity=kept.get("severity", "warning"),
            for_s=kept.get("for_s", 60.0),
            keep_s=kept.get("keep_s", 60.0),
            fleet=_fleet(kept.get("fleet")),
            metric=kept["metric"],
            comparison=kept["comparison"],
            value=thresholds.quantity(kept["metric"], kept["value"]),
            clear_value=_cleared(kept["metric"], kept.get("clear_value")),
            created_by=actor,
        )
        write.audit("alert-rule.create", row.name, after=settings_of(row))
    return entry_named(row.name)


def update(name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None) -> BookEntry:
    """Of a built-in one whether it is on, its severity and times; of one's own anything but its name. Raises
    NotFound, Invalid, Stale."""
    with unit_of_work(actor) as write:
        entry = entry_named(name)
        check_version(f"Alert rule {name}", entry.version, if_version)
        given = {key: value for key, value in changes.items() if not (key == "name" and value == name)}
        if name in BUILT_IN:
            _change_built_in(write, entry, given)
        else:
            _change_own(write, cast(AlertRule, entry.row), given)
    return entry_named(name)


def delete(name: str, actor: str, *, if_version: int | None = None) -> None:
    """One's own is gone; a built-in one is as it came again. Raises NotFound, Stale."""
    with unit_of_work(actor) as write:
        entry = entry_named(name)
        check_version(f"Alert rule {name}", entry.version, if_version)
        if entry.row is not None:
            before = settings_of(entry.row)
            entry.row.delete()
            write.audit("alert-rule.delete", name, before=before)


def settings_of(row: AlertRule) -> dict[str, Any]:
    """As the audit log and the API have it."""
    common = {"enabled": row.enabled, "severity": row.severity, "for_s": row.for_s, "keep_s": row.keep_s}
    if row.built_in:
        return common
    return {
        **common,
        "fleet": row.fleet.name if row.fleet is not None else None,
        "metric": row.metric,
        "comparison": row.comparison,
        "value": row.value,
        "clear_value": row.clear_value,
    }


def _change_built_in(write: UnitOfWork, entry: BookEntry, given: Mapping[str, Any]) -> None:
    problems: Problems = []
    kept = accepted((_BUILT_IN.read_fields(given, "", problems, partial=True), problems))
    rule = entry.rule
    row = entry.row or AlertRule(
        name=rule.name, built_in=True, severity=rule.severity, for_s=rule.for_s, keep_s=rule.keep_s,
        created_by=write.actor, edit_version=0,
    )  # fmt: skip
    _save(write, row, kept)


def _change_own(write: UnitOfWork, row: AlertRule, given: Mapping[str, Any]) -> None:
    problems: Problems = []
    stays = "a rule's name cannot change, because its alerts refer to it: make another, and delete this one"
    elsewhere = immutable(given, ["name"], stays)
    merged = {**settings_of(row), **{key: value for key, value in given.items() if key != "name"}}
    kept = accepted((THRESHOLD.read_fields(merged, "", problems, partial=True), problems), elsewhere)
    fields = {name: kept[name] for name in ("enabled", "severity", "for_s", "keep_s", "metric", "comparison")}
    fields["fleet"] = _fleet(kept.get("fleet"))
    fields["value"] = thresholds.quantity(kept["metric"], kept["value"])
    fields["clear_value"] = _cleared(kept["metric"], kept.get("clear_value"))
    _save(write, row, fields)


def _save(write: UnitOfWork, row: AlertRule, fields: Mapping[str, Any]) -> None:
    before = settings_of(row) if row.pk else None
    version = row.edit_version
    for name, value in fields.items():
        setattr(row, name, value)
    after = settings_of(row)
    if before == after:
        return
    row.edit_version = version + 1
    if row.pk is None:
        row.save()
    elif not AlertRule.objects.filter(pk=row.pk, edit_version=version).update(
        **fields, edit_version=F("edit_version") + 1
    ):
        raise edit_conflict(f"alert rule {row.name}")
    write.audit("alert-rule.update", row.name, before, after)


def _fleet(name: str | None) -> Fleet | None:
    """Raises Invalid as the API does for names."""
    if name is None:
        return None
    try:
        return fleet_named(name)
    except NotFound as error:
        accepted(({}, [FieldProblem("/fleet", error.detail)]))
        raise


def _cleared(metric: str, written: object) -> float | None:
    return None if written is None else thresholds.quantity(metric, written)


def _built_in(rule: RuleInForce, row: AlertRule | None) -> BookEntry:
    if row is None or not row.built_in:
        return BookEntry(rule, True, None)
    changed = replace(rule, severity=cast(Severity, row.severity), for_s=row.for_s, keep_s=row.keep_s)
    return BookEntry(changed, row.enabled, row)


def _own(row: AlertRule) -> RuleInForce:
    value = row.value or 0.0
    threshold = Threshold(
        row.metric,
        cast(Comparison, row.comparison),
        value,
        value if row.clear_value is None else row.clear_value,
        row.fleet.name if row.fleet is not None else "",
    )
    return thresholds.rule_of(row.name, threshold, cast(Severity, row.severity), row.for_s, row.keep_s)
