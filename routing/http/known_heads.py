"""Known heads: request heads that were read before on any of a worker's connections, known by their bytes.

Theory. A connection keeps its last head itself (:mod:`routing.http.client_connection`). Clients that open a
connection for each stream come with the same head on each, and one client's connections are alike: so a few
are kept for all.

Failure mode: where each head has an id of its own none is found, and each costs a lookup and an entry more.
"""

from typing import Final

from routing.http.request_head import RequestHead

_MOST: Final = 64


class KnownHeads:
    """Those of one worker. What a head leads to is kept in it, so they are cleared when that changes."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, RequestHead] = {}

    def find(self, text: bytes) -> RequestHead | None:
        """The head that these bytes are, its empty line included; ``None``: it is not known."""
        return self._heads.get(text)

    def keep(self, text: bytes, head: RequestHead) -> None:
        """A valid one, of bounded length."""
        if len(self._heads) >= _MOST:
            self._heads.clear()
        self._heads[text] = head

    def clear(self) -> None:
        """What was concluded from them no longer holds."""
        self._heads.clear()
