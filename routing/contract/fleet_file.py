"""The fleet file: one YAML file that describes fleets, read strictly.

The CLI applies it, ``dump`` writes it, and a proxy without a control plane routes from it. Every error
carries line, column, the field's path and the cure, and all errors are reported at once. The
reference for people is ``docs/fleet-file.md``.
"""

from pathlib import Path
from typing import Any, NamedTuple

from routing.contract import fleet_file_yaml
from routing.contract.defaults import with_defaults, without_defaults
from routing.contract.field_rules import Problems, path_of
from routing.contract.fleet_file_rules import FILE
from routing.contract.fleet_file_structs import (
    FILE_VERSION,
    FleetEntry,
    FleetFile,
    HardwareEntry,
    ReplicaEntry,
)
from routing.contract.fleet_file_whole import Elsewhere, problems_of_the_whole
from routing.contract.policy_rules import StrategyRules

__all__ = [
    "Elsewhere",
    "FleetEntry",
    "FleetFile",
    "FleetFileError",
    "HardwareEntry",
    "Problem",
    "ReplicaEntry",
    "StrategyRules",
    "dump",
    "load",
    "loadb",
    "loads",
]

_SHOWN = 30


class Problem(NamedTuple):
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

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = sorted(problems)
        shown = [f"{source}: {problem}" for problem in self.problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            shown.append(f"{source}: and {len(problems) - _SHOWN} more problems")
        super().__init__("\n".join(shown))


NOTHING_ELSEWHERE = Elsewhere()


def load(
    path: str | Path, *, strategies: StrategyRules | None = None, elsewhere: Elsewhere = NOTHING_ELSEWHERE
) -> FleetFile:
    """Read a fleet file from disk; see :func:`loads`. Raises OSError when it cannot be read."""
    return loadb(Path(path).read_bytes(), str(path), strategies=strategies, elsewhere=elsewhere)


def loadb(
    data: bytes,
    source: str,
    *,
    strategies: StrategyRules | None = None,
    elsewhere: Elsewhere = NOTHING_ELSEWHERE,
) -> FleetFile:
    """As :func:`loads`, of the bytes of a file."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise FleetFileError(source, [Problem(line, column, "", "not UTF-8: save it as UTF-8")]) from None
    return loads(text, source, strategies=strategies, elsewhere=elsewhere)


def loads(
    text: str,
    source: str = "fleet file",
    *,
    strategies: StrategyRules | None = None,
    elsewhere: Elsewhere = NOTHING_ELSEWHERE,
) -> FleetFile:
    """Read a fleet file.

    ``source`` names it in messages. ``strategies`` lets strategies and their parameters be checked.
    ``elsewhere``: what exists in the control plane besides what the file names.
    Raises :class:`FleetFileError` with every problem.
    """
    document = fleet_file_yaml.read(text)
    problems = [Problem(*flaw.place, path_of(flaw.pointer), flaw.message) for flaw in document.flaws]
    settings, wrong = ({}, []) if document.unreadable else _check(document.content, strategies, elsewhere)
    for pointer, message, at_key in wrong:
        place = document.place_of(pointer, at_key=at_key)
        problems.append(Problem(*place, path_of(pointer), message))
    if problems:
        raise FleetFileError(source, problems)
    return with_defaults(settings, FleetFile)


def dump(file: FleetFile) -> str:
    """A fleet file that :func:`loads` reads as the same; defaults are left out."""
    written = without_defaults(file)
    above = [name for name in ("hardware", "accelerators") if name in written]
    in_order: dict[str, Any] = {"version": FILE_VERSION, **dict.fromkeys(above), "fleets": []}
    return fleet_file_yaml.write(in_order | written)


def _check(
    content: Any, strategies: StrategyRules | None, elsewhere: Elsewhere
) -> tuple[dict[str, Any], Problems]:
    """Settings that are valid, and what is wrong with the rest."""
    problems: Problems = []
    settings = FILE.read(content, "", problems)
    problems += problems_of_the_whole(content, strategies, elsewhere)
    return (settings if isinstance(settings, dict) else {}), problems
