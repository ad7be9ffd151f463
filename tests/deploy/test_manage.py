"""``deploy/manage.sh``: a command with the environment of the units."""

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project with an environment file whose data are in ``data``."""
    python = tmp_path / "project" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "project" / "manage.py").symlink_to(PROJECT / "manage.py")
    (tmp_path / "project" / "deploy").mkdir()
    script = tmp_path / "project" / "deploy" / "manage.sh"
    script.write_bytes((PROJECT / "deploy" / "manage.sh").read_bytes())
    script.chmod((PROJECT / "deploy" / "manage.sh").stat().st_mode)
    lines = f"SWITCHYARD_DATA_DIR={tmp_path / 'data'}\nSWITCHYARD_SECRET_KEY={'k' * 64}\n"
    (tmp_path / "control-plane.env").write_text(lines)
    return tmp_path


def manage(place: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    given = {**kept, "ENV_FILE": str(place / "control-plane.env"), "RUN_AS": getpass.getuser(), **more}
    command = [str(place / "project" / "deploy" / "manage.sh"), *arguments]
    return subprocess.run(command, cwd="/", env=given, capture_output=True, text=True, timeout=60)


def test_it_has_the_environment_of_the_units_wherever_it_is_called(place: Path) -> None:
    done = manage(place, "migrate", "--verbosity", "0")
    assert done.returncode == 0, done.stderr
    assert (place / "data" / "db.sqlite3").is_file()
    assert not (place / "project" / "var").exists()


def test_what_is_set_already_wins(place: Path) -> None:
    other = place / "other.sqlite3"
    done = manage(place, "migrate", "--verbosity", "0", SWITCHYARD_DATABASE_URL=f"sqlite:///{other}")
    assert done.returncode == 0, done.stderr
    assert other.is_file()
    assert not (place / "data" / "db.sqlite3").exists()


def test_without_the_file_nothing_is_run(place: Path) -> None:
    (place / "control-plane.env").unlink()
    done = manage(place, "migrate")
    assert done.returncode != 0
    assert "control-plane.env" in done.stderr
    assert not (place / "data").exists()
