"""Folders of sockets and data: for this user alone, refused where somebody else has made them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.config import private_folder
from controlplane.config.private_folder import NotPrivate
from controlplane.supervision.environment import socket_path
from controlplane.supervision.errors import UpError
from controlplane.supervision.stack import DATA_NAMES, close_to_others, make_private
from tests.controlplane.config.test_environment import load

pytestmark = pytest.mark.any_database


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder as ``/tmp`` is."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_new_folder_is_this_users_alone(shared: Path) -> None:
    private_folder.make(shared / "sy")
    assert mode(shared / "sy") == 0o700
    private_folder.make(shared / "sy")


def test_a_folder_that_others_can_enter_is_refused(shared: Path) -> None:
    (shared / "sy").mkdir(mode=0o755)
    with pytest.raises(NotPrivate, match=r"can be entered by others \(mode 0755\)"):
        private_folder.make(shared / "sy")


def test_a_link_is_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (shared / "sy").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotPrivate, match="is no folder"):
        private_folder.make(shared / "sy")
    with pytest.raises(UpError, match="is no folder"):
        make_private(shared / "sy")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(shared: Path) -> None:
    (shared / "sy").mkdir(mode=0o700)
    os.chown(shared / "sy", 12345, 12345)
    with pytest.raises(NotPrivate, match=r"another user \(uid 12345\)"):
        private_folder.make(shared / "sy")


def test_inside_a_folder_that_only_this_user_writes_no_mode_is_asked_for(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "redis").mkdir(mode=0o755)
    private_folder.make(tmp_path / "redis")


def test_every_process_refuses_a_socket_that_somebody_else_has_prepared(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    short_folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(short_folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    deep = tmp_path / ("d" * 120)
    socket = socket_path(deep)
    assert socket.is_relative_to(short_folder)
    assert load(deep).returncode == 0
    assert mode(deep) == 0o700
    socket.parent.mkdir(mode=0o755)
    refused = load(deep)
    assert "can be entered by others" in refused.stderr.splitlines()[-1]
    assert "SWITCHYARD_REDIS_URL" in refused.stderr.splitlines()[-1]
    assert load(deep, SWITCHYARD_REDIS_URL="redis://127.0.0.1:1/0").returncode == 0


def test_an_open_data_folder_is_closed_and_that_is_said(tmp_path: Path) -> None:
    data = tmp_path / "var"
    (data / "logs").mkdir(parents=True)
    (data / "proxy").mkdir()
    kept = data / "notes"
    group = data / "db.sqlite3"
    for path in (
        data / "logs" / "web.log",
        data / "proxy" / "manifest.json",
        data / "secret_key",
        kept,
        group,
    ):
        path.write_text("x")
        path.chmod(0o644)
    group.chmod(0o640)
    for folder in (data, data / "logs", data / "proxy"):
        folder.chmod(0o755)
    said: list[str] = []
    before = os.umask(0o022)
    try:
        close_to_others(data, said.append)
        (data / "new").touch()
    finally:
        os.umask(before)
    assert mode(data) == mode(data / "logs") == mode(data / "proxy") == 0o700
    assert mode(data / "logs" / "web.log") == mode(data / "secret_key") == mode(data / "new") == 0o600
    assert (mode(group), mode(kept)) == (0o640, 0o644)
    assert said == [f"closed to other users of this machine: 6 files and folders in {data}"]
    assert private_folder.close(data, DATA_NAMES) == []


def test_a_folder_that_is_everybodys_stays_so(shared: Path) -> None:
    assert private_folder.close(shared, DATA_NAMES) == []
    assert mode(shared) == 0o777
