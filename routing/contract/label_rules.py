"""Labels of a fleet: names with values, such as ``team: search``, which selectors of roles ask for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from routing.contract.field_rules import (
    INVALID,
    FieldProblem,
    Problems,
    Rule,
    below,
    enough,
    found,
    shortened,
)

MAX_LABELS = 16
LABEL_NAME_PATTERN = r"^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?\Z"
LABEL_VALUE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?\Z"

_NAME = re.compile(LABEL_NAME_PATTERN)
_VALUE = re.compile(LABEL_VALUE_PATTERN)
_RULE = "digits, dots, hyphens, underscores and slashes; begin and end with a letter or digit"


def label_name_problem(name: str) -> str:
    """Why this cannot name a label, in words; empty when it can."""
    if _NAME.match(name):
        return ""
    return f'"{shortened(name)}" is not a valid label: use 1 to 63 lower-case letters, {_RULE}'


def label_value_problem(value: str) -> str:
    """Why a label cannot have this value, in words; empty when it can."""
    if _VALUE.match(value):
        return ""
    return f'"{shortened(value)}" is not a valid value of a label: use 1 to 63 letters, {_RULE}'


@dataclass(frozen=True, kw_only=True)
class Labels(Rule):
    """A group of labels, each with its value as text."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            problems.append(FieldProblem(at, f"must be labels with their values, not {found(value)}"))
            return INVALID
        if len(value) > MAX_LABELS:
            problems.append(FieldProblem(at, f"holds {len(value)} labels; at most {MAX_LABELS} are allowed"))
            return INVALID
        kept: dict[str, str] = {}
        for name, item in value.items():
            if enough(problems):
                break
            if problem := label_name_problem(str(name)):
                problems.append(FieldProblem(below(at, name), problem, at_key=True))
            elif not isinstance(item, str):
                cure = ": put it in quotes" if isinstance(item, bool | int | float) else ""
                problems.append(FieldProblem(below(at, name), f"must be text, not {found(item)}{cure}"))
            elif problem := label_value_problem(item):
                problems.append(FieldProblem(below(at, name), problem))
            else:
                kept[name] = item
        return kept

    def kind(self) -> str:
        return "labels with their values"
