"""Whether a write has reached every proxy worker, as the API says; how soon, test_reach.py asks."""

from collections.abc import Callable
from typing import Any

from tests.proxy_process import until


def reaches_all(repeat: Callable[[], Any], workers: int) -> None:
    """``repeat`` sends the same write again: it changes nothing, and its answer counts the workers anew."""

    def all_have_it() -> bool:
        answer = repeat()
        assert answer["changed"] == []
        assert answer["workers"]["live"] == workers
        assert answer["workers"]["refused"] == 0
        return bool(answer["workers"]["applied"] == workers)

    until(all_have_it, f"all {workers} workers route from what was written")
