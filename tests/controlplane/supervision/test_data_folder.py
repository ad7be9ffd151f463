"""The data folder is for one ``up`` at a time, which can write it."""

import os
from pathlib import Path

import pytest

from controlplane.supervision.errors import UpError
from controlplane.supervision.run_lock import RUNNING_LOCK, holder, only_one_on


def test_one_at_a_time(tmp_path: Path) -> None:
    with only_one_on(tmp_path), pytest.raises(UpError, match="already running"), only_one_on(tmp_path):
        pass
    with only_one_on(tmp_path):
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / RUNNING_LOCK).mkdir()
    with pytest.raises(UpError) as refused, only_one_on(tmp_path):
        pass
    assert str(refused.value).startswith(f"The data folder {tmp_path} cannot be written (Is a directory):")
    assert "--data-dir" in str(refused.value)


def test_it_is_known_which_process_holds_it(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    with only_one_on(tmp_path, is_up=True):
        found = holder(tmp_path)
        assert found is not None
        assert (found.pid, found.end()) == (os.getpid(), None)
    assert holder(tmp_path) is None
    with only_one_on(tmp_path):
        assert holder(tmp_path) is None, "one who only looks is not to be stopped"
