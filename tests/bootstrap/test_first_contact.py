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


def test_a_newer_python_on_the_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = tmp_path / "python3.12"
    newer.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(SystemExit, match=r"this is 3\.9: use the python3\.12 found here"):
        run.refuse_old_python()


def test_this_python_is_accepted() -> None:
    run.refuse_old_python()
    assert sys.version_info >= run.OLDEST
