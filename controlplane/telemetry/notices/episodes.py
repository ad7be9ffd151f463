"""Episodes: what comes and goes from second to second, published once when it begins. Pure.

Its end counts only once nothing was seen of it for a while.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class Episode:
    began_at: float | None
    """Monotonic seconds; ``None``: another conductor has published it."""
    seen_at: float
    """When it was last seen."""
    detail: str = ""


class Episodes(Generic[Key]):
    """Those that have been published and are not over."""

    def __init__(self, over_after_s: float) -> None:
        self.over_after_s = over_after_s
        self.open: dict[Key, Episode] = {}

    def begin(self, key: Key, now: float, detail: str = "") -> None:
        self.open[key] = Episode(now, now, detail)

    def resume(self, key: Key, seen_at: float) -> None:
        """Another conductor has published it."""
        self.open[key] = Episode(None, seen_at)

    def end(self, key: Key) -> None:
        self.open.pop(key, None)

    def over(self, key: Key, now: float) -> bool:
        return now - self.open[key].seen_at >= self.over_after_s
