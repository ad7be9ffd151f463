"""Every migration can be taken back under data that the newest version wrote, as docs/upgrade.md promises."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.services import PROJECT, clean_environment
from tests.deploy.taking_back import EARLIER, Rows


def of_columns(before: dict[str, Rows], after: dict[str, Rows]) -> dict[str, Rows]:
    """``before`` without the tables and columns that ``after`` has no more."""
    return {
        table: [{name: row[name] for name in (rows[0] if rows else ())} for row in before[table]]
        for table, rows in after.items()
    }


@pytest.mark.long
def test_what_an_older_version_knows_survives_taking_migrations_back(
    tmp_path: Path, empty_database_url: Callable[[], str], redis_url: str
) -> None:
    """One after the other down to the first, then all again at once."""
    environment = {
        **clean_environment(),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "SWITCHYARD_DATABASE_URL": empty_database_url(),
        "SWITCHYARD_REDIS_URL": redis_url,
        "SWITCHYARD_DATA_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "tests.deploy.taking_back"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    newest, *older, again = json.loads(done.stdout)
    assert len(older) == len(EARLIER) >= 3
    assert [row["name"] for row in newest["controlplane_fleet"]] == ["llm"]
    assert len(newest["controlplane_clientkey"]) == 1
    for name, tables in zip(reversed(EARLIER), older, strict=True):
        assert tables["controlplane_fleet"], name
        assert of_columns(newest, tables) == tables, name
    assert set(again) == set(newest)
    assert of_columns(again, older[-1]) == older[-1]
