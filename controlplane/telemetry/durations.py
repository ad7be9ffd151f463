"""Durations as text, readable at a glance."""

from math import ceil

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def about(seconds: float) -> str:
    """What is only expected, rounded up: ``"a few seconds"``, ``"about 40 s"``, ``"about 3 min"``."""
    if seconds <= 5:
        return "a few seconds"
    step = 5 if seconds <= 60 else 60
    return f"about {words(ceil(seconds / step) * step)}"


def same_words_for(seconds: float) -> float:
    """How many more seconds :func:`words` says the same."""
    whole = max(int(seconds), 0)
    step = 1 if whole < 60 else 60 if whole < 86_400 else 3600
    return (whole // step + 1) * step - seconds


def words(seconds: float) -> str:
    """``"41 s"``, ``"12 min"``, ``"2 h 10 min"``, ``"6 d 3 h"``: at most two units, rounded down."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    for position, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            text = f"{whole // size} {unit}"
            if unit == "min":
                return text
            smaller, smaller_unit = _UNITS[position + 1]
            rest = whole % size // smaller
            return f"{text} {rest} {smaller_unit}" if rest else text
    raise AssertionError("60 seconds and more are at least one minute")
