"""Tokens are taken out of what replicas answer, in time that grows with the answer's length alone."""

import time

import pytest

from routing.tls.credentials import redact_token

SPECIAL = [bytes((code,)) for code in range(0x21, 0x7F) if not bytes((code,)).isalnum()]
SHORT = 2048


def cpu_s(said: bytes) -> float:
    """Of one answer, for a token of each kind; the least of a few times."""
    times = []
    for _ in range(5):
        start = time.process_time()
        for first in SPECIAL:
            redact_token(said, b"Bearer " + first * 2 + b"abc" + first + b"def")
        times.append(time.process_time() - start)
        if times[-1] > 1:
            break
    return min(times)


@pytest.mark.parametrize("run", [b"\\", b"&#0", b"&#", b"&#x0", b"%", b"u00", b"-\\", b"0", b"\\u005c"])
def test_a_run_of_escapes_costs_time_in_proportion_to_its_length(run: bytes) -> None:
    short, long = (run * (length // len(run)) for length in (SHORT, 4 * SHORT))
    if run == b"&#0":
        short, long = b"&#" + b"0" * SHORT, b"&#" + b"0" * (4 * SHORT)
    # Four times as long: 4 times in proportion, 16 times by the square.
    assert cpu_s(long) < 10 * cpu_s(short) + 0.01


@pytest.mark.parametrize("backslashes", [1, 2, 3])
def test_backslashes_in_a_token(backslashes: int) -> None:
    token = b"\\" * backslashes + b"ab\\" + b"-c"
    for written in (
        token,
        token.replace(b"\\", b"\\\\"),
        token.replace(b"\\", b"\\\\\\\\"),
        token.replace(b"\\", b"%5c"),
        token.replace(b"\\", b"&#92;"),
        token.replace(b"\\", b"\\u005c"),
    ):
        said = redact_token(b"[" + written + b"]", b"Bearer " + token)
        # What escapes the first character may be left: it tells nothing.
        assert said.replace(b"\\", b"") == b"[***]", written


def test_what_escapes_the_first_character_may_stay() -> None:
    assert redact_token(rb"\"\"-abc\"", b'Bearer ""-abc') == rb"\***\""
    assert redact_token(rb"\\u002dabc", b"Bearer -abc") == rb"\\***"
