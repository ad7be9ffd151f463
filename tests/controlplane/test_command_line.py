"""``switchyard`` and ``manage.py`` as a shell sees them, each in a process of its own."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import get_commands

from controlplane.command_line import COMMANDS
from routing.contract.version import VERSION
from tests.ports import free_port
from tests.proxy_process import ROOT

pytestmark = pytest.mark.any_database

DONE = subprocess.CompletedProcess[str]
FLEETS = "version: 1\nfleets:\n  - {name: llm, protocol: openai}\n"


@pytest.fixture
def switchyard(tmp_path: Path, redis_url: str) -> Callable[..., DONE]:
    """Runs ``switchyard …`` on a data folder of its own, with these variables besides."""

    def run(*arguments: str, given: str = "", **variables: str) -> DONE:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SWITCHYARD_DATABASE_URL"},
            "SWITCHYARD_DATA_DIR": str(tmp_path),
            **variables,
        }
        program = "import sys; from controlplane.command_line import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, input=given, capture_output=True, text=True, timeout=60
        )

    return run


def test_a_database_without_tables_is_one_sentence(switchyard: Callable[..., DONE], tmp_path: Path) -> None:
    done = switchyard("createtoken", "admin", "laptop")
    assert done.returncode == 1
    assert done.stderr == (
        f"The database {tmp_path / 'db.sqlite3'} has no tables yet: `switchyard migrate` (or `manage.py "
        "migrate`) brings it up to date. If you mean another one: that of `up --data-dir X` is named by "
        "SWITCHYARD_DATA_DIR=X, any other by SWITCHYARD_DATABASE_URL.\n"
    )


def test_a_database_that_is_away_is_one_sentence_without_its_password(
    switchyard: Callable[..., DONE],
) -> None:
    url = f"postgresql://anna:secret@127.0.0.1:{(port := free_port())}/fleets"
    done = switchyard("dump", SWITCHYARD_DATABASE_URL=url)
    assert done.returncode == 1
    first, *others = done.stderr.splitlines()
    assert first.startswith(f"The database fleets at 127.0.0.1:{port} cannot be used: ")
    assert first.endswith("(see SWITCHYARD_DATABASE_URL).")
    assert (others, "secret" in first) == ([], False)


def test_the_database_is_closed_to_other_users(switchyard: Callable[..., DONE], tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        assert switchyard("migrate", "--verbosity=0").returncode == 0
        file = tmp_path / "db.sqlite3"
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o644)
        assert switchyard("dump").returncode == 0
        assert file.stat().st_mode & 0o777 == 0o600
        file.chmod(0o640)
        assert switchyard("dump").returncode == 0
        assert file.stat().st_mode & 0o777 == 0o640, "a group was let in on purpose"
    finally:
        os.umask(before)


@pytest.mark.parametrize("arguments", [["--version"], ["version"], ["apply", "--version"]])
def test_the_version_is_ours(switchyard: Callable[..., DONE], arguments: list[str]) -> None:
    done = switchyard(*arguments)
    assert (done.returncode, done.stdout.split()[-1]) == (0, VERSION)


def test_the_list_of_commands_names_every_one_of_ours() -> None:
    ours = {name for name, app in get_commands().items() if app == "controlplane"}
    assert ours - COMMANDS.keys() == set()


def test_help_lists_the_commands_own_flags(switchyard: Callable[..., DONE]) -> None:
    said = switchyard("apply", "--help").stdout
    assert "--prune" in said
    for flag in ("--settings", "--pythonpath", "--no-color", "--verbosity"):
        assert flag not in said
    assert switchyard("apply", "--no-color", "--help").returncode == 0, "and yet it is taken"


def test_a_fleet_file_comes_from_standard_input_and_the_timeline_says_by_whom(
    switchyard: Callable[..., DONE], tmp_path: Path
) -> None:
    switchyard("migrate", "--verbosity=0")
    broken = switchyard("apply", "-", given=FLEETS.replace("protocol", "protcol"))
    assert broken.returncode == 1
    assert "standard input: line 3, column " in broken.stderr
    applied = switchyard("apply", "-", given=FLEETS, USER="")
    assert (applied.returncode, applied.stdout) == (0, "fleet llm: created with 0 replicas\n")
    with sqlite3.connect(tmp_path / "db.sqlite3") as database:
        texts = [text for (text,) in database.execute("SELECT text FROM controlplane_event")]
    database.close()
    assert texts == ["switchyard apply created fleet llm"]
