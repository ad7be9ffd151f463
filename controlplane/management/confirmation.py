"""Confirmation of a write's consequences by a person at a terminal, for exactly those that are shown."""

from collections.abc import Callable
from typing import TypeVar

from controlplane.services.confirmation import NeedsConfirmation

T = TypeVar("T")


def confirmed(action: Callable[..., T], question: str, say: Callable[[str], object], *, asks: bool) -> T:
    """What ``action(confirm=…)`` returns. ``asks``: whether there is somebody to ask.

    Each consequence is asked about on its own. Raises NeedsConfirmation where there is nobody, or the answer
    is no.
    """
    token = ""
    while True:
        try:
            return action(confirm=token)
        except NeedsConfirmation as needed:
            if not asks:
                raise
            say(needed.detail)
            if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
                raise
            token = needed.token
