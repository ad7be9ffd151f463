"""``make reset`` empties the data folder, and only that."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from bootstrap import reset
from controlplane.supervision import processes


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "web.log").touch()
    (folder / "secret_key").write_text("key")
    monkeypatch.setenv("SWITCHYARD_DATA_DIR", str(folder))
    return folder


def test_everything_in_it_goes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reset.main()
    assert list(data.iterdir()) == []
    assert "is empty now" in capsys.readouterr().out


def test_it_waits_for_nobody_who_is_running(data: Path) -> None:
    with (data / reset.RUNNING_LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match=r"is running on .*: stop it first"):
            reset.main()
    assert (data / "secret_key").exists()


def test_it_waits_for_what_a_killed_start_has_left(data: Path) -> None:
    started = processes.started_at(os.getpid())
    left = {"name": "proxy", "pid": os.getpid(), "started": started}
    (data / reset.STATE).write_text(json.dumps({"programs": [left]}))
    with pytest.raises(SystemExit, match=r"has left proxy running on .*: first .venv/bin/switchyard down"):
        reset.main()
    assert (data / "secret_key").exists()
    (data / reset.STATE).write_text(json.dumps({"programs": [{**left, "started": f"{started}1"}]}))
    reset.main()
    assert list(data.iterdir()) == []


def test_a_folder_that_is_not_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "letters").touch()
    monkeypatch.setenv("SWITCHYARD_DATA_DIR", str(tmp_path))
    with pytest.raises(SystemExit, match="does not look like a data folder"):
        reset.main()
    assert (tmp_path / "letters").exists()


def test_no_folder_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWITCHYARD_DATA_DIR", str(tmp_path / "none"))
    reset.main()
    assert "is empty already" in capsys.readouterr().out
