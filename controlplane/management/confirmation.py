"""Confirmation of a large drop by a person at a terminal, for exactly the loss that is shown."""

from collections.abc import Callable
from typing import TypeVar

from controlplane.services.dropping import NeedsConfirmation

T = TypeVar("T")


def confirmed(action: Callable[..., T], question: str, say: Callable[[str], object], *, asks: bool) -> T:
    """What ``action(confirm=…)`` returns. ``asks``: whether there is somebody to ask.

    Raises NeedsConfirmation where there is not, or the answer is no.
    """
    try:
        return action(confirm="")
    except NeedsConfirmation as drop:
        if not asks:
            raise
        say(drop.detail)
        if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
            raise
        return action(confirm=drop.token)
