"""What is said of a command line that cannot be followed."""

from collections.abc import Iterable


class BadSimulationOptions(Exception):
    """The command line cannot be followed; the message names the option and the cure."""


def choose(names: Iterable[str]) -> str:
    """The cure where a replica's name is wrong."""
    return f"choose one of: {', '.join(names)}"
