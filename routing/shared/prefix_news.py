"""Prefix news: what one worker has newly noted in its host's prefix memory, for other hosts (gossip).

Gathered only while somebody takes it, and bounded: what finds no room until then is left out and counted.
What is new at its replica comes first. What was known and has been used again fills the room that is left, so
that a host which is new, or has missed something, learns what is in use.

Failure mode: of what is left out the other hosts hear when it is used again, or not at all; a prompt then
goes where its prefix is not.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Note(NamedTuple):
    """A replica was sent a prompt."""

    fleet: str
    block_bytes: int
    """By which it was cut into blocks."""
    column: int
    """Where the replica's column begins, in this host's memory."""
    hashes: Sequence[int]


class PrefixNews:
    """Of one process."""

    __slots__ = (
        "_new",
        "_renewed",
        "_renewed_room",
        "_room",
        "applied",
        "left_out",
        "open",
        "refused",
        "sent",
    )

    def __init__(self) -> None:
        self.open = False
        """Whether anything is gathered."""
        self._new: list[Note] = []
        self._renewed: list[Note] = []
        self._room = self._renewed_room = 0
        self.sent = 0
        """Hashes told to other hosts since the process began."""
        self.applied = 0
        """Hashes of other hosts that were noted here."""
        self.left_out = 0
        """Hashes that were not told or not noted, because there were too many or Redis was away."""
        self.refused = 0
        """Messages that could not be read: malformed, too large or of another version."""

    def begin(self, room: int) -> None:
        """Gather that many hashes at most until they are taken."""
        self.open = True
        self._room = self._renewed_room = room

    def stop(self) -> None:
        """Gather nothing, and forget what has been."""
        self.open = False
        self._new.clear()
        self._renewed.clear()

    def add(
        self, fleet: str, block_bytes: int, column: int, new: Sequence[int], renewed: Sequence[int]
    ) -> None:
        """``renewed``: hashes that were known there and have been used again."""
        if new:
            if len(new) <= self._room:
                self._room -= len(new)
                self._new.append(Note(fleet, block_bytes, column, new))
            else:
                self.left_out += len(new)
        if renewed and len(renewed) <= self._renewed_room:
            self._renewed_room -= len(renewed)
            self._renewed.append(Note(fleet, block_bytes, column, renewed))

    def take(self) -> list[Note]:
        """What has been gathered; :meth:`begin` goes on."""
        taken, room = self._new, self._room
        for note in self._renewed:
            if len(note.hashes) <= room:
                room -= len(note.hashes)
                taken.append(note)
        self._new, self._renewed = [], []
        self._room = self._renewed_room = 0
        return taken
