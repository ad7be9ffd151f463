"""What somebody with an old Python, or none that fits, is told."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import run

ENTRY = Path(run.__file__)


def test_an_old_python_can_read_the_entry_file() -> None:
    ast.parse(ENTRY.read_text(), feature_version=(3, 6))


def test_an_old_python_gets_one_sentence_and_a_failure() -> None:
    run_entry = f"runpy.run_path({str(ENTRY)!r}, run_name='__main__')"
    pretend = f"import sys, runpy; sys.version_info = (3, 8, 18); {run_entry}"
    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Switchyard needs Python 3.11 or newer and this is 3.8: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_newer_python_that_runs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    script(tmp_path / "python3.12", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit, match=r"this is 3\.9: use the python3\.12 found here"):
        run.refuse_old_python()


@pytest.mark.parametrize("ending", ["exit 127", "exit 1"], ids=["does not run", "older than 3.6"])
def test_what_cannot_read_the_entry_file_gets_a_sentence_from_make(tmp_path: Path, ending: str) -> None:
    python = script(tmp_path / "python3", f"echo SyntaxError >&2; {ending}")
    command = ["make", "-C", str(ENTRY.parent.parent), "up", f"PYTHON={python}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert said == [
        f"Switchyard needs Python 3.11 or newer, and '{python}' is none: make up PYTHON=python3.11"
    ]


def script(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_this_python_is_accepted() -> None:
    run.refuse_old_python()
    assert sys.version_info >= run.OLDEST
