"""Fallen back: what an exchange remembers of the fleet that its client has asked, once another serves it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from routing.balancing.pool.pool import Pool
from routing.contract.policy import Fallback, FallbackCause
from routing.http.request_head import RequestHead

_VISIBLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


class FallbackTarget(NamedTuple):
    """A fleet that may serve the request, and the request as it goes there."""

    pool: Pool
    position: int
    """Of its entry in the list of the fleet that was asked."""
    head: RequestHead
    body: bytes
    model: str
    """As the replicas there know it."""


class FallenBack:
    """Where a request came from. Not changed once made: with a further fallback another one replaces it."""

    __slots__ = ("cause", "entries", "first", "position", "tried")

    def __init__(
        self, first: Pool, entries: list[Fallback], position: int, cause: FallbackCause, tried: int
    ) -> None:
        """``tried``: how many replicas had been tried before."""
        self.first = first
        """The fleet that the client has asked."""
        self.entries = entries
        """Of its policy, as it was then."""
        self.position = position
        self.cause = cause
        self.tried = tried

    @property
    def included(self) -> bool:
        """Whether a key for the first fleet is enough."""
        return self.entries[self.position].included

    def fields(self, target: FallbackTarget) -> bytes:
        """The header fields that tell the client who serves it, each preceded by CRLF."""
        return b"\r\nx-switchyard-fleet: %b\r\nx-switchyard-model: %b\r\nx-switchyard-fallback: %b" % (
            target.pool.name.encode(),
            quote(target.model, safe=_VISIBLE).encode(),
            self.cause.encode(),
        )
