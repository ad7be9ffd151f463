"""The fenced commands of README.md and docs/, and what is done with each."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^ *```(.*)$")
COMMANDS = {"sh", "bash", "shell"}
HERE_DOCUMENT = re.compile(r"<<-?\s*'?(\w+)'?")


class Block(NamedTuple):
    page: str
    text: str

    @property
    def commands(self) -> int:
        """Logical lines: continued ones, open quotes and here-documents count once."""
        count, held, until = 0, "", ""
        for line in self.text.splitlines():
            if until:
                until = "" if line.strip() == until else until
                continue
            held = f"{held}\n{line}" if held else line
            if is_open(held):
                continue
            if held.strip() and not held.lstrip().startswith("#"):
                count += 1
            found = HERE_DOCUMENT.search(held)
            until, held = (found[1] if found else ""), ""
        return count


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


def blocks() -> list[Block]:
    """Every block of commands; other languages (yaml, json, nginx …) are none."""
    return [
        Block(str(page.relative_to(PROJECT)), text)
        for page in pages()
        for language, text in fenced(page)
        if language in COMMANDS
    ]


ENGINE = "needs a Docker engine"
INSTALLS = "changes the machine: packages, users, units, the checkout"
OTHER_SERVER = "needs a model server that is not installed here; tests/servers runs those that can be"

NOT_RUN: dict[tuple[str, str], str] = {
    ("README.md", "make up"): "starts what these tests run on, and runs these tests; tests/system starts it",
    ("docs/backup.md", "0 3 * * *"): "a line for cron; its command is run as another block",
    ("docs/backup.md", "docker compose"): ENGINE,
    ("docs/backup.md", "SWITCHYARD_DATABASE_URL=postgresql"): (
        "needs PostgreSQL; tests/controlplane/test_backup.py restores into an empty one"
    ),
    ("docs/import.md", ".venv/bin/switchyard import nginx /etc"): (
        "reads configurations of another machine; tests/importing runs the command"
    ),
    ("docs/upgrade.md", "git fetch"): INSTALLS,
    ("docs/upgrade.md", "git checkout"): INSTALLS,
    ("docs/upgrade.md", "systemctl restart"): INSTALLS,
    ("docs/upgrade.md", "docker compose"): ENGINE,
    ("docs/production.md", "docker compose"): ENGINE,
    ("docs/production.md", "useradd"): f"{INSTALLS}; tests/deploy runs what the units start",
    ("docs/proxy.md", "python -m routing --redis redis://127.0.0.1:6379"): (
        "needs a Redis on that port; the proxy that these tests ask runs with the same flags"
    ),
}
"""(page, how the block begins) → why it is not run."""

FOREGROUND = {
    ("README.md", ".venv/bin/python -m routing --fleets"),
    ("docs/proxy.md", "python -m routing --fleets"),
}
"""These run until they are stopped: each is run by itself until it listens."""

RUN_ELSEWHERE = {"docs/api.md": "tests/controlplane/test_documents.py"}
"""Pages whose every command another test runs."""


def reason_not_run(block: Block) -> str:
    """Empty: it is run."""
    found = [
        reason
        for (page, begin), reason in NOT_RUN.items()
        if block.page == page and block.text.startswith(begin)
    ]
    if block.page.startswith("docs/servers/"):
        found.append(OTHER_SERVER)
    return found[0] if found else ""


def runs_in_foreground(block: Block) -> bool:
    return any(block.page == page and block.text.startswith(begin) for page, begin in FOREGROUND)
