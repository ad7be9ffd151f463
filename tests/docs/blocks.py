"""The fenced commands of README.md and docs/."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^ *```(.*)$")
LANGUAGES = {"sh", "bash", "shell"}
HERE_DOCUMENT = re.compile(r"<<-?\s*'?(\w+)'?")


class Command(NamedTuple):
    page: str
    text: str
    """One logical line: continued ones, open quotes and here-documents belong to it."""


def commands() -> list[Command]:
    """Every command; blocks of other languages (yaml, json, nginx …) hold none."""
    return [
        Command(str(page.relative_to(PROJECT)), command)
        for page in pages()
        for language, text in fenced(page)
        if language in LANGUAGES
        for command in logical_lines(text)
    ]


def logical_lines(text: str) -> Iterator[str]:
    held, until = "", ""
    for line in text.splitlines():
        held = f"{held}\n{line}" if held else line
        if until:
            complete, until = line.strip() == until, "" if line.strip() == until else until
        else:
            found = HERE_DOCUMENT.search(held)
            until = found[1] if found else ""
            complete = not until and not is_open(held)
        if complete:
            if held.strip() and not held.lstrip().startswith("#"):
                yield held
            held = ""


def is_open(text: str) -> bool:
    if text.rstrip().endswith(("\\", "|", "&&")):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def pages() -> list[Path]:
    return [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def fenced(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of every fenced block."""
    language, lines = None, list[str]()
    for line in page.read_text().splitlines():
        found = FENCE.match(line)
        if found and language is None:
            language, lines = found[1].strip(), []
        elif found and language is not None:
            yield language, "".join(f"{each}\n" for each in lines)
            language = None
        else:
            lines.append(line)
