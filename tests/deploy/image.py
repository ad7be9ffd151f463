"""The Dockerfile, read; and the image's work folder as its COPY lines fill it."""

import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.deploy.services import PROJECT

DOCKERFILE = PROJECT / "deploy" / "Dockerfile"
KNOWN = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "EXPOSE"}


class Instruction(NamedTuple):
    keyword: str
    arguments: str


def instructions() -> list[Instruction]:
    """Of the image itself, the last stage: one for each line; continued lines joined, comments left out."""
    return stages()[-1]


def stages() -> list[list[Instruction]]:
    """The same, of each stage."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    found: list[list[Instruction]] = []
    for line in lines:
        instruction = Instruction(*line.split(" ", 1))
        if instruction.keyword == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def fill(folder: Path) -> Path:
    """Copies what the image would hold of this project; raises FileNotFoundError for a source that is not
    there."""
    for keyword, arguments in instructions():
        if keyword == "COPY" and not arguments.startswith("--from="):
            *sources, target = shlex.split(arguments)
            for source in sources:
                _copy(PROJECT / source, folder / target, into=target.endswith("/"))
    return folder


def run_lines() -> list[str]:
    return [arguments for keyword, arguments in instructions() if keyword == "RUN"]


def own_commands() -> list[str]:
    """RUN lines that run our code."""
    return [line for line in run_lines() if "python -m " in line or "manage.py " in line]


def tools(line: str) -> list[str]:
    """The programs that a RUN line starts: of each part, the first word that sets no variable."""
    parts = [shlex.split(part) for part in re.split(r"&&|\|\||;|\|", line)]
    return [next(word for word in words if "=" not in word) for words in parts]


def _copy(source: Path, target: Path, *, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        return
    target = target / source.name if into else target
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
