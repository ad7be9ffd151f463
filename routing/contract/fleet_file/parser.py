"""Parser and writer of the fleet file: YAML text to a checked :class:`FleetFile`, and back."""

from pathlib import Path
from typing import Any, NamedTuple

from routing.contract import input_file
from routing.contract.defaults import with_defaults, without_defaults
from routing.contract.field_rules import MOST_PROBLEMS, Problems, enough, path_of
from routing.contract.fleet_file import yaml_document
from routing.contract.fleet_file.cross_checks import ExistingState, cross_check_problems
from routing.contract.fleet_file.rules import FILE
from routing.contract.fleet_file.structs import FILE_VERSION, FleetFile
from routing.contract.policy_rules import StrategyRules

MAX_BYTES = 8 * 1024 * 1024
"""Of a fleet file."""
_SHOWN = 30


class FileProblem(NamedTuple):
    """One thing wrong with a fleet file. Line and column count from 1."""

    line: int
    column: int
    path: str
    """``fleets[0].policy.timeouts``; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"line {self.line}, column {self.column}: {where}{self.message}"


class FleetFileError(ValueError):
    """A fleet file that cannot be used. ``str()`` lists its problems, one a line, in file order."""

    def __init__(self, source: str, problems: list[FileProblem]) -> None:
        self.source = source
        self.problems = sorted(problems)
        shown = [f"{source}: {problem}" for problem in self.problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            least = "at least " if len(problems) >= MOST_PROBLEMS else ""
            shown.append(f"{source}: and {least}{len(problems) - _SHOWN} more problems")
        super().__init__("\n".join(shown))


NOTHING_EXISTS = ExistingState()


def load(
    path: str | Path, *, strategies: StrategyRules | None = None, existing: ExistingState = NOTHING_EXISTS
) -> FleetFile:
    """Read a fleet file from disk; see :func:`loads`. Raises OSError when it cannot be read
    (:mod:`routing.contract.input_file`)."""
    return loadb(input_file.read(path, MAX_BYTES), str(path), strategies=strategies, existing=existing)


def loadb(
    data: bytes,
    source: str,
    *,
    strategies: StrategyRules | None = None,
    existing: ExistingState = NOTHING_EXISTS,
) -> FleetFile:
    """As :func:`loads`, of the bytes of a file."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise FleetFileError(source, [FileProblem(line, column, "", "not UTF-8: save it as UTF-8")]) from None
    return loads(text, source, strategies=strategies, existing=existing)


def loads(
    text: str,
    source: str = "fleet file",
    *,
    strategies: StrategyRules | None = None,
    existing: ExistingState = NOTHING_EXISTS,
) -> FleetFile:
    """Read a fleet file.

    ``source`` names it in messages. ``strategies`` lets strategies and their parameters be checked.
    ``existing``: what exists in the control plane besides what the file names.
    Raises :class:`FleetFileError` with every problem, or as many as are looked for.
    """
    document = yaml_document.read(text)
    problems = [FileProblem(*flaw.place, path_of(flaw.pointer), flaw.message) for flaw in document.flaws]
    settings, wrong = ({}, []) if document.unreadable else _check(document.content, strategies, existing)
    for pointer, message, at_key in wrong[: MOST_PROBLEMS - len(problems)]:
        position = document.position_of(pointer, at_key=at_key)
        problems.append(FileProblem(*position, path_of(pointer), message))
    if problems:
        raise FleetFileError(source, problems)
    return with_defaults(settings, FleetFile)


def dump(file: FleetFile) -> str:
    """A fleet file that :func:`loads` reads as the same; defaults are left out."""
    written = without_defaults(file)
    above = [name for name in ("hardware", "accelerators") if name in written]
    in_order: dict[str, Any] = {"version": FILE_VERSION, **dict.fromkeys(above), "fleets": []}
    return yaml_document.write(in_order | written)


def _check(
    content: Any, strategies: StrategyRules | None, existing: ExistingState
) -> tuple[dict[str, Any], Problems]:
    """Settings that are valid, and what is wrong with the rest."""
    problems: Problems = []
    settings = FILE.read(content, "", problems)
    if not enough(problems):
        problems += cross_check_problems(content, strategies, existing)
    return (settings if isinstance(settings, dict) else {}), problems
