"""Who a request came from, and the failures in a row of one replica, by who sent them."""

from typing import NamedTuple


class Source(NamedTuple):
    """Who sent a request, and which: 32-bit hashes that are the same in all workers of a host, never 0."""

    client: int
    request: int


class Row:
    """A replica's failures since its last answer that was none: by whom."""

    __slots__ = ("client", "is_mixed", "is_varied", "request")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nobody has failed."""
        self.client = self.request = 0
        self.is_mixed = False
        """By several clients, or by somebody unknown."""
        self.is_varied = False
        """By several requests."""

    def add(self, source: Source | None) -> None:
        """One more failure. ``None``: the request was not at fault, or nobody knows whose it was."""
        if source is None:
            self.is_mixed = True
        elif not self.client:
            self.client, self.request = source
        else:
            self.is_mixed |= source.client != self.client
            self.is_varied |= source.request != self.request
