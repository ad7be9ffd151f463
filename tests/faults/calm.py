"""All is well again, as the page System says."""

import time
from http.client import HTTPException

from tests.faults.whole_stack import WholeStack

CALM_WITHIN_S = 180.0
"""It takes a minute where a process was replaced; on a busy machine more."""


def await_calm(running: WholeStack, limit_s: float = CALM_WITHIN_S) -> float:
    """Seconds that it took. Fails after the limit with what is wrong."""
    began = time.monotonic()
    while words := what_is_wrong(running):
        assert time.monotonic() - began < limit_s, f"after {limit_s:g} s: {words}"
        time.sleep(0.1)
    return time.monotonic() - began


def what_is_wrong(running: WholeStack) -> str:
    """In words; empty: nothing is."""
    try:
        verdict = running.stack.api("GET", "/system")["verdict"]
    except (OSError, HTTPException, AssertionError) as problem:
        return f"the dashboard does not tell: {problem!r}"
    return "" if verdict["level"] == "calm" else str(verdict["words"])
