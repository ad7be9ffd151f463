"""The data folder is for one ``up`` at a time, which can write it."""

from pathlib import Path

import pytest

from controlplane.supervision.errors import UpError
from controlplane.supervision.stack import RUNNING_LOCK, only_one_on


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
