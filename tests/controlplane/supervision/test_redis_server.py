"""Which Redis ``up`` runs."""

from pathlib import Path

import pytest

from controlplane.supervision import redis_server
from controlplane.supervision.errors import UpError


def test_a_server_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "redis-server"
    server.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis_server.find() == str(server)


def test_else_the_package_carries_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(redis_server.find()).is_file()


def test_without_any_the_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(redis_server, "from_package", lambda: None)
    with pytest.raises(UpError, match=r"install redis-server or valkey-server, or name a running one"):
        redis_server.find()
