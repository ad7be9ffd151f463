"""What ``up`` says about a Redis that was named and not found, and what it leaves of its own one."""

from pathlib import Path

import pytest

from controlplane.supervision import startup_checks
from controlplane.supervision.environment import OWN_REDIS, socket_path
from controlplane.supervision.options import UpOptions
from controlplane.supervision.stack import RunningStack, remove_socket


def test_a_named_redis_that_answers_is_no_news(redis_url: str) -> None:
    assert startup_checks.named_redis_problem(redis_url) is None


@pytest.mark.parametrize(
    ("url", "place"),
    [("redis://:hidden@127.0.0.1:1/0", "127.0.0.1:1"), ("unix:///nowhere/redis.sock", "/nowhere/redis.sock")],
)
def test_one_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, place: str
) -> None:
    monkeypatch.delenv(OWN_REDIS, raising=False)
    said: list[str] = []
    RunningStack(UpOptions(), tmp_path, url, said.append).wait_for_redis()
    assert len(said) == 1
    assert said[0].startswith(f"Redis at {place} does not answer (")
    assert "correct SWITCHYARD_REDIS_URL" in said[0]
    assert "hidden" not in said[0]


def test_a_deep_data_folder_leaves_no_folder_of_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / ("d" * 120)
    socket = socket_path(data)
    monkeypatch.setenv(OWN_REDIS, "1")
    stack = RunningStack(UpOptions(), data, f"unix://{socket}?db=0", print)
    stack.make_folders()
    socket.touch()
    remove_socket(stack.own_redis_socket, data)
    assert not socket.parent.exists()
