"""Trial of continuation: whether a replica was seen to continue what another has begun. State alone.

:mod:`routing.proxy.continuation_trials` writes it.
"""

from __future__ import annotations


class ContinuationTrial:
    """One replica's result in one worker. A replica whose address has changed begins anew."""

    __slots__ = ("chats", "completions", "due", "echoes", "why")

    def __init__(self) -> None:
        self.chats: bool | None = None
        self.completions: bool | None = None
        """Whether it continues these; ``None``: not tried yet."""
        self.echoes = False
        """Whether its chats repeat what they continue."""
        self.why = ""
        """Why one of these does not work, for people."""
        self.due = 0.0
        """When it is to be tried (again), in seconds of ``time.monotonic()``."""

    def words(self) -> str:
        """For ``/status``; empty: it was not tried."""
        if self.chats is None and self.completions is None:
            return ""
        able = [name for name, can in (("chats", self.chats), ("completions", self.completions)) if can]
        can = f"continues {' and '.join(able)}" if able else "continues nothing"
        return f"{can}: {self.why}" if self.why else can
