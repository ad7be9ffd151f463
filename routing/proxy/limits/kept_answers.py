"""Kept answers: the memory of one worker for what was said of streams that may have to be continued.

It is a part of the one budget of bodies and answers (:mod:`routing.proxy.limits.body_budget`), and the first
to give way: an answer is kept only in room that no body wants, and is given up as soon as one does. Those
that hold most go first, so that few streams lose their continuation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class AnswerKeeper(Protocol):
    """A stream that keeps what was said. :mod:`routing.proxy.exchange` implements it."""

    def give_up_kept(self) -> None:
        """Keep nothing any more: the memory is wanted."""


class KeptAnswers:
    """Those of one worker. Sizes in bytes."""

    __slots__ = ("_room", "_sizes", "used")

    def __init__(self, room: Callable[[], int]) -> None:
        """``room``: what all of them may take now."""
        self._room = room
        self._sizes: dict[AnswerKeeper, int] = {}
        self.used = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def grow(self, keeper: AnswerKeeper, size: int) -> bool:
        """So many more bytes are kept; False: there is no room for them, and nothing of it may be kept."""
        if self.used + size > self._room():
            self.end(keeper)
            return False
        self._sizes[keeper] = self._sizes.get(keeper, 0) + size
        self.used += size
        return True

    def end(self, keeper: AnswerKeeper) -> None:
        """Nothing is kept of it (any more). May be said more than once."""
        self.used -= self._sizes.pop(keeper, 0)

    def shrink(self) -> None:
        """The room has become less."""
        room = self._room()
        if self.used <= room:
            return
        for keeper in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            if self.used <= room:
                break
            self.end(keeper)
            keeper.give_up_kept()
