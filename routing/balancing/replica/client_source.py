"""Client source: who sent a request, and which clients a replica's consecutive failures came from."""

from hashlib import blake2b
from typing import NamedTuple

from routing.balancing.replica.untracked import Untracked


class ClientSource(NamedTuple):
    """Who sent a request, and which: 32-bit hashes that are the same in all workers of a host, never 0."""

    client: int
    request: int


UNKNOWN = 0
"""Stands for a client that nobody knows."""
MOST_CLIENTS = 64
"""Of one row that are told apart; the others are as unknown."""


def client_number(name: bytes) -> int:
    """The number of the client of this name."""
    return number_of(blake2b(name, digest_size=4).digest())


def number_of(digest: bytes) -> int:
    """The number for a digest of four bytes."""
    return int.from_bytes(digest) or 1


class ClientFailures(Untracked):
    """One client's part of a row of failures."""

    request: int
    """The first."""
    failures: int = 0
    is_varied: bool = False
    """Whether there were others."""


class FailureRun(Untracked):
    """A replica's failures since its last response that was none: by whom."""

    clients: dict[int, ClientFailures] = {}
    """By client, :data:`UNKNOWN` among them."""
    # What :mod:`routing.balancing.outlier.shared_consecutive_failures` goes by.
    left_out: int = 0
    """Those before another worker's last response."""
    judged: int = 0
    """How long the host's row was when it was judged."""
    answers: float = 0.0
    """Of the replica, that all workers had shown."""
    is_shown: bool = False
    """Whether the others see this worker's part."""

    def begin(self) -> None:
        """Nobody has failed."""
        self.clients.clear()

    def add(self, source: ClientSource | None) -> None:
        """One more failure. ``None``: the request was not at fault, or nobody knows whose it was."""
        client, request = source or (UNKNOWN, 0)
        if client not in self.clients and len(self.clients) >= MOST_CLIENTS:
            client = UNKNOWN
        part = self.clients.get(client)
        if part is None:
            part = self.clients[client] = ClientFailures(request)
        part.failures += 1
        part.is_varied |= request != part.request
