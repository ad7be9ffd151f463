"""Validation rules for configuration values: types, ranges and names, with messages that say the fix.

One table of rules (:mod:`routing.contract.fleet_file.rules`) serves the fleet file, the REST API and
the reference page, so that all three say the same. Values are what JSON can hold: None, bool, int,
float, str, list and dict with text keys.
"""

import difflib
import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple


class FieldProblem(NamedTuple):
    """What is wrong with one field. ``pointer`` is a JSON pointer (RFC 6901) from the value checked."""

    pointer: str
    message: str
    at_key: bool = False
    """The field's name is wrong, rather than its value."""


class _Invalid:
    def __repr__(self) -> str:
        return "INVALID"


INVALID = _Invalid()
"""Stands for a value whose problem has been noted."""

Problems = list[FieldProblem]

MOST_PROBLEMS = 200
"""Looked for in one value. Nobody corrects more at once, and to explain one takes up to a millisecond."""
_MOST_COMPARED = 300
"""Known words that a wrong one is compared with."""
_LONGEST_COMPARED = 200
_MOST_LISTED = 20
_LONGEST_MESSAGE = 1000
"""Of a check of text, which may repeat it. The text may be as long as the file."""


def enough(problems: Problems) -> bool:
    """Whether so much is wrong that no more is looked for."""
    return len(problems) >= MOST_PROBLEMS


def below(pointer: str, key: str | int) -> str:
    """The JSON pointer of a field or list item inside ``pointer``."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def path_of(pointer: str) -> str:
    """``/fleets/0/policy`` as people write it: ``fleets[0].policy``; empty for the whole."""
    path = ""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        path += f"[{name}]" if name.isdecimal() else f".{name}"
    return path.removeprefix(".")


def found(value: object) -> str:
    """A value as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {shown_number(value)}"
    if isinstance(value, str):
        return f'the text "{shortened(value)}"'
    return "a list" if isinstance(value, list) else "a group of fields"


def shortened(text: str, most: int = 60) -> str:
    """Text as a message holds it, cut when it is longer than ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def shown_number(value: float) -> str:
    """A number as people write it, cut when it is absurdly long."""
    text = str(value) if isinstance(value, int) else f"{value:.12g}"
    return text if len(text) <= 24 else text[:23] + "…"


def did_you_mean(word: str, known: Collection[str]) -> str:
    """``; did you mean "x"?``, or nothing when no known word is close, or there are too many to compare."""
    if len(word) > _LONGEST_COMPARED or len(known) > _MOST_COMPARED:
        return ""
    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""


def listed(known: Collection[str]) -> str:
    """``a, b, c``: the known words in order, the first of them where there are many."""
    if len(known) <= _MOST_LISTED:
        return ", ".join(sorted(known))
    first = heapq.nsmallest(_MOST_LISTED, known)
    return f"{', '.join(first)} and {len(known) - _MOST_LISTED} more"


@dataclass(frozen=True, kw_only=True)
class Rule(ABC):
    """What one value may be. ``words``: its description in the reference page."""

    words: str
    nullable: bool = False
    """Whether ``null`` is a value, meaning "as if not set"."""
    required: str = ""
    """Not empty: the field must be there; this is an example of it."""

    def read(self, value: object, at: str, problems: Problems) -> object:
        """The value as it is kept, or :data:`INVALID` after noting what is wrong."""
        if value is None:
            if self.nullable:
                return None
            problems.append(FieldProblem(at, "has no value: give it one, or remove it"))
            return INVALID
        return self._read(value, at, problems)

    @abstractmethod
    def _read(self, value: object, at: str, problems: Problems) -> object:
        """:meth:`read` of a value that is there."""

    @abstractmethod
    def kind(self) -> str:
        """Type and range, for the reference."""


@dataclass(frozen=True, kw_only=True)
class Number(Rule):
    """A finite number in an inclusive range."""

    minimum: float
    maximum: float
    whole: bool = False
    unit: str = ""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        wanted = "a whole number" if self.whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int | float):
            cure = ": remove the quotes" if isinstance(value, str) and _may_be_number(value) else ""
            problems.append(FieldProblem(at, f"must be {wanted}, not {found(value)}{cure}"))
            return INVALID
        # Written so that not-a-number fails it.
        if not self.minimum <= value <= self.maximum:
            unit = f" {self.unit}" if self.unit else ""
            message = f"must be {self._range('from ')}{unit}, not {shown_number(value)}"
            problems.append(FieldProblem(at, message))
            return INVALID
        if self.whole and not isinstance(value, int):
            problems.append(FieldProblem(at, f"must be a whole number, not {shown_number(value)}"))
            return INVALID
        return value if self.whole else float(value)

    def kind(self) -> str:
        name = "whole number" if self.whole else "number"
        return f"{name}, {self._range()}"

    def _range(self, before: str = "") -> str:
        low, high = f"{self.minimum:.12g}", f"{self.maximum:.12g}"
        return low if low == high else f"{before}{low} to {high}"


@dataclass(frozen=True, kw_only=True)
class NumberOrWord(Number):
    """A number, or one of a few words in its place."""

    options: tuple[str, ...]

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not _may_be_number(value):
            if value in self.options:
                return value
            wanted = f"must be a number or {' or '.join(self.options)}"
            hint = did_you_mean(value, self.options) if isinstance(value, str) else ""
            problems.append(FieldProblem(at, f"{wanted}, not {found(value)}{hint}"))
            return INVALID
        return super()._read(value, at, problems)

    def kind(self) -> str:
        return " or ".join([super().kind(), *(f"`{option}`" for option in self.options)])


def _may_be_number(value: object) -> bool:
    """Whether it is one, or a text of one. No infinite one can be sent as JSON."""
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return isfinite(float(value))
    except ValueError:
        return False


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, kw_only=True)
class Text(Rule):
    """Text. ``check`` returns it as it is kept, or raises ValueError with the message."""

    check: Callable[[str], str] = _as_it_is
    what: str = "text"

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not isinstance(value, str):
            scalar = isinstance(value, bool | int | float)
            cure = ": put it in quotes" if scalar else ""
            problems.append(FieldProblem(at, f"must be text, not {found(value)}{cure}"))
            return INVALID
        try:
            return self.check(value)
        except ValueError as error:
            problems.append(FieldProblem(at, shortened(str(error), _LONGEST_MESSAGE)))
            return INVALID

    def kind(self) -> str:
        return self.what


@dataclass(frozen=True, kw_only=True)
class Choice(Rule):
    """One of a few words."""

    options: tuple[str, ...]

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if isinstance(value, str) and value in self.options:
            return value
        hint = did_you_mean(value, self.options) if isinstance(value, str) else ""
        problems.append(
            FieldProblem(at, f"must be one of {', '.join(self.options)}, not {found(value)}{hint}")
        )
        return INVALID

    def kind(self) -> str:
        return " or ".join(f"`{option}`" for option in self.options)


@dataclass(frozen=True, kw_only=True)
class Flag(Rule):
    """``true`` or ``false``, and nothing that only looks like it."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if isinstance(value, bool):
            return value
        problems.append(FieldProblem(at, f"must be true or false, not {found(value)}"))
        return INVALID

    def kind(self) -> str:
        return "`true` or `false`"


@dataclass(frozen=True, kw_only=True)
class ListOf(Rule):
    """A list whose items all follow one rule; invalid items are left out of what is kept."""

    item: Rule
    plural: str
    at_least: int = 0
    at_most: int | None = None
    distinct: bool = False
    """What is in it already is left out when it comes again."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not isinstance(value, list):
            problems.append(FieldProblem(at, f"must be a list, not {found(value)}"))
            return INVALID
        if len(value) < self.at_least:
            problems.append(FieldProblem(at, f"needs at least {self.at_least} of the {self.plural}"))
            return INVALID
        if self.at_most is not None and len(value) > self.at_most:
            message = f"has {len(value)} {self.plural}: give it {self.at_most} at most"
            problems.append(FieldProblem(at, message))
            return INVALID
        kept: list[object] = []
        for index, item in enumerate(value):
            if enough(problems):
                break
            read = self.item.read(item, below(at, index), problems)
            if read is not INVALID and not (self.distinct and read in kept):
                kept.append(read)
        return kept

    def kind(self) -> str:
        most = "" if self.at_most is None else f"up to {self.at_most} "
        return f"list of {most}{self.plural}"


@dataclass(frozen=True, kw_only=True)
class Scalars(Rule):
    """Free names with simple values: parameters, whose meaning somebody else checks."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            problems.append(FieldProblem(at, f"must be a group of fields, not {found(value)}"))
            return INVALID
        kept: dict[str, Any] = {}
        for key, item in value.items():
            if enough(problems):
                break
            if isinstance(item, bool | int | str) or (isinstance(item, float) and isfinite(item)):
                kept[key] = item
            else:
                message = f"must be a finite number, text, true or false, not {found(item)}"
                problems.append(FieldProblem(below(at, key), message))
        return kept

    def kind(self) -> str:
        return "group of simple values"


CrossCheck = Callable[[Mapping[str, Any], str, Problems], None]
"""A check of several fields together: (the fields as written, pointer, problems to add to)."""


def _no_cross_check(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class Section(Rule):
    """A group of named fields. What is kept holds only the fields that were set and are valid."""

    what: str
    """What such a group is, for messages: ``a replica``."""
    fields: Mapping[str, Rule] = field(default_factory=dict)
    cross_check: CrossCheck = _no_cross_check

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            problems.append(FieldProblem(at, f"must be {self.what} as a group of fields, not {found(value)}"))
            return INVALID
        return self.read_fields(value, at, problems)

    def read_fields(
        self, value: Mapping[str, Any], at: str, problems: Problems, *, partial: bool = False
    ) -> dict[str, Any]:
        """Check each field. ``partial``: a change of something that exists, so nothing is required."""
        kept: dict[str, Any] = {}
        for key, item in value.items():
            if enough(problems):
                return kept
            rule = self.fields.get(key)
            if rule is None:
                problems.append(FieldProblem(below(at, key), self._unknown(key), at_key=True))
                continue
            read = rule.read(item, below(at, key), problems)
            if read is not INVALID:
                kept[key] = read
        for key, rule in self.fields.items():
            if rule.required and key not in value and not partial:
                example = f"{key}: {rule.required}"
                problems.append(FieldProblem(at, f'{self.what} needs "{key}": add it, for example {example}'))
        self.cross_check(value, at, problems)
        return kept

    def _unknown(self, key: str) -> str:
        hint = did_you_mean(key, self.fields)
        if not hint:
            hint = f"; {self.what} can have: {', '.join(self.fields)}"
        return f'unknown field "{shortened(key)}"{hint}'

    def kind(self) -> str:
        return "group of fields"


def seconds(words: str, minimum: float, maximum: float, *, nullable: bool = False) -> Number:
    """A duration."""
    return Number(words=words, minimum=minimum, maximum=maximum, unit="seconds", nullable=nullable)


def percent(words: str) -> Number:
    """A share of a whole."""
    return Number(words=words, minimum=0, maximum=100, unit="percent")


def count(words: str, maximum: int, *, nullable: bool = False) -> Number:
    """How many, at least one."""
    return Number(words=words, minimum=1, maximum=maximum, whole=True, nullable=nullable)
