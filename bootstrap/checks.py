"""Every check of the project: ``make test``, and ``make test-long`` with ``--long``. Runs in the environment
with test tools.

Lint and types come first because they are quick, beside each other; pytest comes last, so that its closing
line is the last but one thing said. All of them run even when one fails; the exit status is 1 when any did.
Arguments go to pytest; if they name tests, all of these run. ``--lint-only`` leaves the tests out. Left to
``--long`` are the tests marked ``long``, and those that touch a database once more, on a PostgreSQL of their
own. Those marked ``faults`` need the machine for themselves: ``make test-faults``.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

LINT: dict[str, list[str]] = {
    "mypy": [str(BIN / "mypy")],  # first, as it takes longer than all others
    "ruff check": [str(BIN / "ruff"), "check", "."],
    "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
    "import contracts": [str(BIN / "lint-imports")],
    "django check": [sys.executable, "manage.py", "check"],
    "migrations": [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
}
UNWANTED = {"DJANGO_SETTINGS_MODULE", "SWITCHYARD_REDIS_URL", "SWITCHYARD_DATABASE_URL"}
PYTEST = [sys.executable, "-m", "pytest"]
IN_FOUR = ["-n", "4", "--no-loadscope-reorder"]
"""Twice as many as a small machine has cores: many tests wait for a process of their own. Tests of one file
run in one process, see tests/conftest.py."""
QUICK = ["-m", "not long and not faults"]
ON_POSTGRES = [*PYTEST, *IN_FOUR, "-m", "database and not long and not browser and not system"]
"""Those tests that touch a database. Without PostgreSQL they are skipped, with ``CI=true`` that fails."""
LONG: dict[str, list[str]] = {
    "tests on PostgreSQL": ON_POSTGRES,
    "long tests": [*PYTEST, *IN_FOUR, "-m", "long"],
}


def main(arguments: list[str]) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="switchyard-checks-") as data:
        if "--long" in arguments:
            lint, tests = {}, LONG
        else:
            chosen = [] if names_tests(arguments) else QUICK
            lint, tests = LINT, {"tests": [*PYTEST, *IN_FOUR, *chosen, *arguments]}
        if "--lint-only" in arguments:
            tests = {}
        failed = check_beside_each_other(lint, data)
        failed += [name for name, command in tests.items() if not passes(name, command, data)]
    print(f"{len(lint) + len(tests)} checks in {time.monotonic() - started:.0f} s: ", end="")
    print("failed: " + ", ".join(failed) if failed else "all passed")
    return 1 if failed else 0


def names_tests(arguments: list[str]) -> bool:
    """Whether pytest is told which files, folders or tests to run."""
    return any((PROJECT / argument.partition("::")[0]).exists() for argument in arguments)


def check_beside_each_other(steps: dict[str, list[str]], data: str) -> list[str]:
    """Two at a time; what each says is printed whole. Returns which failed."""

    def run(step: tuple[str, list[str]]) -> tuple[str, subprocess.CompletedProcess[bytes]]:
        name, command = step
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment(command, data),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return name, done

    failed = []
    with ThreadPoolExecutor(2) as pool:
        for name, done in pool.map(run, steps.items()):
            print(f"--- {name}\n{done.stdout.decode(errors='replace')}", end="", flush=True)
            if done.returncode != 0:
                failed.append(name)
    return failed


def passes(name: str, command: list[str], data: str) -> bool:
    """Run one check."""
    print(f"--- {name}", flush=True)
    started = time.monotonic()
    status = subprocess.run(command, cwd=PROJECT, env=environment(command, data), check=False).returncode
    print(f"--- {name}: {time.monotonic() - started:.0f} s", flush=True)
    return status == 0


def environment(command: list[str], data: str) -> dict[str, str]:
    """``data``: a folder for what Django makes when it starts, so that var/ stays as it is."""
    kept = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    chosen = {"SWITCHYARD_TEST_DATABASE": "postgresql"} if command is ON_POSTGRES else {}
    return {**kept, "PYTHONPATH": str(PROJECT), "SWITCHYARD_DATA_DIR": data, **chosen}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
