"""Writer of an import: the fleet file with comments, and the report of what was not carried over."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controlplane.importing.model import Draft, FleetDraft, NotImportable, SourcedValue, shown
from routing.balancing import strategies
from routing.contract import fleet_file
from routing.contract.fleet_file import yaml_document
from routing.contract.fleet_file.rules import FLEET

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*\Z")


def fleet_file_text(draft: Draft) -> str:
    """The fleet file. Raises NotImportable when nothing was found, or its own strict reader refuses it."""
    fleets = [fleet for fleet in draft.fleets if fleet.replicas]
    if not fleets:
        raise NotImportable(f"{draft.source}: {_NOTHING[draft.kind]}")
    lines = [f"# Made from {shown(draft.source)} by: switchyard import {draft.kind}", "version: 1", "fleets:"]
    for fleet in fleets:
        lines += _fleet(fleet)
    # The main file is named at the top; included files by their relative paths.
    lines[3:] = [_short(line, draft.source) for line in lines[3:]]
    text = "\n".join([*lines, ""])
    rules = fleet_file.StrategyRules(strategies.names(), strategies.build)
    try:
        fleet_file.loads(text, "the imported fleet file", strategies=rules)
    except fleet_file.FleetFileError as error:
        raise NotImportable(f"{draft.source}: cannot be made into a valid fleet file:\n{error}") from None
    return text


_NOTHING = {
    "nginx": "holds no upstream or proxy_pass with an http address, so there is nothing to carry over",
    "litellm": "holds no model with an http api_base in model_list, so there is nothing to carry over",
}


def report(draft: Draft) -> str:
    """What was carried over, and everything that was not, with its place and the reason."""
    fleets = [fleet for fleet in draft.fleets if fleet.replicas]
    replicas = sum(len(fleet.replicas) for fleet in fleets)
    lines = [f"Carried over: {_count(len(fleets), 'fleet')}, {_count(replicas, 'replica')}."]
    for title, notes in (("With a difference", draft.changed), ("Not carried over", draft.dropped)):
        if notes:
            ordered = sorted(notes, key=lambda note: note.place)
            lines += [f"{title}:", *(f"  {note}" for note in ordered)]
    return "\n".join(lines)


def _short(line: str, source: str) -> str:
    before, mark, comment = line.partition("# ")
    folder = str(Path(source).parent)
    return before + mark + comment.replace(f"{source} line", "line").replace(f"{folder}/", "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


_ORDER = [*FLEET.fields]


def _fleet(fleet: FleetDraft) -> Iterator[str]:
    yield f"  # {shown(fleet.heading, 300)}"
    fields = {"name": fleet.name, **fleet.fields, "replicas": fleet.replicas}
    fields = {key: fields[key] for key in sorted(fields, key=_ORDER.index)}
    for number, line in enumerate(_group(fields, "    ")):
        yield f"  - {line[4:]}" if not number else line


def _group(fields: dict[str, Any], indent: str) -> Iterator[str]:
    for key, given in fields.items():
        value, why = given if isinstance(given, SourcedValue) else (given, "")
        comment = f"  # {shown(why, 300)}" if why else ""
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:{comment}"
            yield from _group(value, indent + "  ")
        elif isinstance(value, list) and value:
            yield f"{indent}{key}:{comment}"
            yield from _items(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_scalar(value)}{comment}"


def _items(items: list[Any], indent: str) -> Iterator[str]:
    for given in items:
        value, why = given if isinstance(given, SourcedValue) else (given, "")
        if not isinstance(value, dict):
            yield f"{indent}- {_scalar(value)}" + (f"  # {shown(why, 300)}" if why else "")
            continue
        for number, line in enumerate(_group(value, indent + "  ")):
            yield f"{indent}- {line[len(indent) + 2 :]}" if not number else line


def _scalar(value: Any) -> str:
    """As YAML 1.2 reads it back; quoted as in JSON wherever a bare word could be taken for something else."""
    if isinstance(value, str):
        bare = _WORD.match(value) and yaml_document.scalar(value) == value
        return value if bare else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(value)
