"""``make audit``: what it says of what it could and could not look up, its environment, and the bill."""

import json
from pathlib import Path

import pytest

from bootstrap import auditing
from bootstrap.environment import LOCKS, STAMP
from bootstrap.lock import blocks
from tests.bootstrap.test_environment import Place
from tests.needs import need

SOUND = {"name": "alpha", "version": "1.0", "vulns": []}
WEAK = {
    "name": "beta",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["2.1"], "description": "…"}],
}
UNKNOWN = {"name": "gamma", "skip_reason": "Dependency not found on PyPI and could not be audited: gamma (3)"}


def test_what_was_looked_up_and_is_sound() -> None:
    assert auditing.judged([SOUND, SOUND]) == (0, "2 packages looked up, no known weakness")


def test_a_weakness_is_named_with_its_cure() -> None:
    status, words = auditing.judged([SOUND, WEAK, UNKNOWN])
    assert status == 1
    assert "beta 2.0: PYSEC-2026-1, fixed in 2.1" in words
    assert "1 of 3 could not be looked up" in words


def test_what_could_not_be_looked_up_is_not_called_sound() -> None:
    """An index without these data: pip-audit itself says of it that nothing was found."""
    status, words = auditing.judged([SOUND, UNKNOWN])
    assert status == 2
    assert "1 of 2 could not be looked up, so nothing is known of them. Of gamma: Dependency not" in words
    assert "no known weakness" not in words


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(place.wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return place


def test_its_environment_is_made_once_and_again_when_its_python_is_gone(place: Place) -> None:
    python = auditing.install(place.venv, place.locks)
    assert place.value("alpha") == 1
    place.mark()
    auditing.install(place.venv, place.locks)
    assert place.was_left_alone()
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert (place.venv / STAMP).exists()
    auditing.install(place.venv, place.locks)
    assert not place.was_left_alone()
    assert place.value("alpha") == 1


def test_an_interpreter_that_does_not_start_is_not_believed_either(place: Place) -> None:
    python = auditing.install(place.venv, place.locks)
    python.unlink()
    python.write_text("no program")
    python.chmod(0o755)
    assert not auditing.is_current(place.venv, place.locks)


def test_tools_that_cannot_be_installed_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(auditing, "install", _fails)
    assert auditing.main() == 2
    assert "There is no way to the index." in capsys.readouterr().err


def _fails(*_: object) -> None:
    raise auditing.BootstrapError("There is no way to the index.")


@pytest.mark.long
def test_the_bill_names_every_package_that_runs(tmp_path: Path) -> None:
    tools = auditing.VENV / "bin" / "python"
    need(auditing.is_current(auditing.VENV, auditing.LOCKS_OF_THE_TOOLS), "make audit installs what makes it")
    bill = json.loads(auditing.write_bill(tools, tmp_path / "build" / "sbom.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == auditing.own_version()
    packages = {one["name"]: one["version"] for one in bill["components"] if one["type"] == "library"}
    pinned = [block.partition(" ")[0].partition("==") for block in blocks((LOCKS / "lock.txt").read_text())]
    assert packages == {name: version for name, _, version in pinned}
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"] if one["type"] == "library")
    files = [one["name"].rpartition("/")[2] for one in bill["components"] if one["type"] == "file"]
    assert "uPlot.iife.min.js" in files
