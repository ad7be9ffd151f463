"""Which rows of a table are tried by `make test`, where all of them take long."""

from collections.abc import Sequence
from typing import Any

import pytest


def one_in(step: int, rows: Sequence[Any]) -> list[Any]:
    """All rows, in their order; all but each ``step``-th are marked ``long``."""
    return [
        row if not at % step else pytest.param(row, marks=pytest.mark.long) for at, row in enumerate(rows)
    ]
