"""Values on the simulator's command line: each is read, or refused with what to write instead."""

import argparse
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from routing.balancing import strategies
from routing.simulator import central_fifo
from routing.simulator.arrivals import Profile
from routing.simulator.bursts import Bursts
from routing.simulator.objectives import Deadlines


def above(low: float, most: float) -> Any:
    """A number above ``low``, up to ``most``."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low
        if not low < value <= most:
            raise argparse.ArgumentTypeError(f"give a number above {low:g}, at most {most:g}, not {text!r}")
        return value

    return number


def count(most: int) -> Any:
    """A whole number from 1 to ``most``."""

    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"give a whole number from 1 to {most}, not {text!r}")
        return int(text)

    return number


def deadlines(text: str) -> Deadlines:
    """How long clients wait, in seconds or in times, and how many of them."""
    found = re.fullmatch(r"(\d*\.?\d+)(x?)(?::(\d*\.?\d+))?", text)
    if found is None or not 0 < float(found[1]) <= 86400 or not 0 < float(found[3] or 1) <= 1:
        raise argparse.ArgumentTypeError(
            f"give seconds, or times what a request takes alone at mean speed, above 0, and the share of "
            f"requests if it is less than 1, as in 8, 2.5x or 8:0.3, not {text!r}"
        )
    return Deadlines(float(found[1]), bool(found[2]), float(found[3] or 1))


def strategy_names(text: str) -> list[str]:
    """Names with commas between, each once."""
    known = [*strategies.names(), central_fifo.NAME]
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no strategy {name!r}; choose of: {', '.join(known)}")
    return list(dict.fromkeys(names))


def svg_path(text: str) -> Path:
    """A file that can be written."""
    if not text.endswith(".svg"):
        raise argparse.ArgumentTypeError(
            f"the plot is written as SVG: give a name that ends in .svg, not {text!r}"
        )
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}: make it first, or give another")
    return path


def rate_profile(text: str) -> Profile:
    """Times and factors of the rate."""
    cure = f"give TIME:FACTOR pairs with growing times, the first at 0, as in 0:1,10:1,15:10, not {text!r}"
    try:
        points = [tuple(float(number) for number in pair.split(":")) for pair in text.split(",")]
        profile = [(time_s, factor) for time_s, factor in points]
    except ValueError:
        raise argparse.ArgumentTypeError(cure) from None
    times = [time_s for time_s, _ in profile]
    grows = all(one < other for one, other in pairwise(times))
    if times[0] != 0 or not grows or not all(0 < factor <= 1000 for _, factor in profile):
        raise argparse.ArgumentTypeError(cure)
    return profile


def replica_speeds(text: str) -> list[float]:
    """One for each replica; ``2x3`` is 2 for three."""
    speeds: list[float] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:x(\d+))?", part.strip())
        if found is None or not 0 < float(found[1]) <= 1000 or not 1 <= int(found[2] or 1) <= 2000:
            raise argparse.ArgumentTypeError(
                f"give speeds above 0, each with how many: 1x6,2x6,4x4, not {text!r}"
            )
        speeds += [float(found[1])] * int(found[2] or 1)
    return speeds


def bursts(text: str) -> Bursts:
    """How strong they are, how long and how often."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)", text)
    if found is None or not 1 < float(found[1]) <= 1000 or not 0 < float(found[2]) < float(found[3]):
        raise argparse.ArgumentTypeError(
            f"give FACTOR:LENGTH:EVERY, a factor above 1 and a length below the time from one burst to the "
            f"next, as in 5:4:20, not {text!r}"
        )
    return Bursts(float(found[1]), float(found[2]), float(found[3]))
