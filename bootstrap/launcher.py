"""The command ``.venv/bin/switchyard``: the project's code is the checkout, so nothing is built for it."""

import os
import shlex
from pathlib import Path

NAME = "switchyard"
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from controlplane.command_line import main; sys.exit(main())"
)


def write_launcher(venv: Path, project: Path) -> None:
    """Put the command beside the environment's Python; found by way of links, and after a move of both.

    Where the environment itself is a link, the project is where the link is: so only links to the command
    are followed, and ``cd`` takes ``..`` off the path as it is written.
    """
    target = venv / "bin" / NAME
    inside = os.path.relpath(project, target.parent)
    lines = [
        "#!/bin/sh",
        "# Made by bootstrap/run.py.",
        "at=$0",
        'while [ -L "$at" ]; do',
        '    to=$(readlink -- "$at")',
        '    case $to in /*) at=$to ;; *) at=$(dirname -- "$at")/$to ;; esac',
        "done",
        'here=$(CDPATH= cd -- "$(dirname -- "$at")" && pwd)',
        f'project=$(CDPATH= cd -- "$here/"{shlex.quote(inside)} && pwd)',
        f'exec "$here/python" -c {shlex.quote(_PROGRAM)} "$project" "$@"',
        "",
    ]
    new = target.with_name(f"{NAME}.new")
    new.write_text("\n".join(lines))
    new.chmod(0o755)
    new.replace(target)
