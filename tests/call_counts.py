"""Work by count: how many functions something calls, Python's own among them. Does not depend on time."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls(action: Callable[[], object]) -> int:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    was_on = gc.isenabled()
    gc.disable()  # its callbacks would count
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        if was_on:
            gc.enable()
    return count
