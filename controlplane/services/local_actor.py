"""Local actor, for the audit log: who changes something on this machine, where no account has signed in."""

import os
import sys
from pathlib import Path

PROGRAMS = ("switchyard", "manage.py")


def program(command: str) -> str:
    """``switchyard apply`` or ``manage.py apply``, as it was called."""
    called = Path(sys.argv[0]).name
    return f"{called if called in PROGRAMS else PROGRAMS[0]} {command}"


def local_actor(command: str) -> str:
    """The user of this machine, or where that is not known, the program."""
    return os.environ.get("USER") or program(command)
