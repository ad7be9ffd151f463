"""Every check of the project, one after the other: ``make test``. Runs in the environment with test tools.

Lint and types come first because they are quick; pytest comes last, so that its closing line is the
last but one thing said. All of them run even when one fails; the exit status is 1 when any did.
Arguments go to pytest; ``--lint-only`` leaves the tests out. Without arguments the tests that touch a
database run on a PostgreSQL of their own first; then all of them run, on SQLite, those that watch a browser
or start everything last.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

LINT: dict[str, list[str]] = {
    "ruff check": [str(BIN / "ruff"), "check", "."],
    "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
    "mypy": [str(BIN / "mypy")],
    "import contracts": [str(BIN / "lint-imports")],
    "django check": [sys.executable, "manage.py", "check"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
}
UNWANTED = {"DJANGO_SETTINGS_MODULE", "SWITCHYARD_REDIS_URL", "SWITCHYARD_DATABASE_URL"}
PYTEST = [sys.executable, "-m", "pytest"]
IN_TWO = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
"""Two processes, and tests of one file in one of them."""
ON_POSTGRES = [*PYTEST, *IN_TWO, "-m", "database and not browser and not system"]
"""Those tests that touch a database. Without PostgreSQL they are skipped, with ``CI=true`` that fails."""
TESTS: dict[str, list[str]] = {
    "tests on PostgreSQL": ON_POSTGRES,
    "tests": [*PYTEST, *IN_TWO, "-m", "not browser and not system"],
    # One at a time: each starts a dozen processes, or waits for what a page draws.
    "browser and system tests": [*PYTEST, "-p", "no:xdist", "-m", "browser or system"],
}


def main(arguments: list[str]) -> int:
    steps = dict(LINT)
    if "--lint-only" not in arguments:
        steps |= {"tests": [*PYTEST, *IN_TWO, *arguments]} if arguments else TESTS
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="switchyard-checks-") as data:
        failed = [name for name, command in steps.items() if not passes(name, command, data)]
    print(f"{len(steps)} checks in {time.monotonic() - started:.0f} s: ", end="")
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


def passes(name: str, command: list[str], data: str) -> bool:
    """Run one check. ``data``: a folder for what Django makes when it starts, so that var/ stays as it is."""
    print(f"--- {name}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    environment |= {"PYTHONPATH": str(PROJECT), "SWITCHYARD_DATA_DIR": data}
    if command is ON_POSTGRES:
        environment["SWITCHYARD_TEST_DATABASE"] = "postgresql"
    return subprocess.run(command, cwd=PROJECT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
