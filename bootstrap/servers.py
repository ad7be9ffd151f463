"""The environment of the real model servers that ``tests/servers`` runs: ``.venv-servers``, beside ``.venv``
because they want older packages. Without it those tests are skipped, and with ``CI=true`` they fail.
"""

import os
import sys
from pathlib import Path

from bootstrap.environment import PROJECT, STAMP, install_beside, stamp_of
from bootstrap.errors import BootstrapError

VENV = PROJECT / ".venv-servers"
LOCKS = PROJECT / "tests" / "servers"
COMMAND = "python3 bootstrap/run.py servers"
"""What to say to somebody who lacks it."""


def installed() -> Path | None:
    """Its Python, when it was completed from the present lock, by whichever Python."""
    python = VENV / "bin" / "python"
    try:
        digest = (VENV / STAMP).read_text().splitlines()[-1]
    except (OSError, IndexError):
        return None
    wanted = stamp_of(LOCKS, dev=False).splitlines()[-1]
    return python if digest == wanted and os.access(python, os.X_OK) else None


def install() -> Path:
    """Make it where it is missing. Raises :class:`BootstrapError` with a sentence."""
    return install_beside(VENV, LOCKS, lambda: installed() is not None)


def install_if_possible() -> None:
    """For the tests: whatever hinders it is said, and does not hinder the other tests."""
    try:
        install()
    except BootstrapError as error:
        print(f"no real model servers for tests/servers: {error}", file=sys.stderr)
