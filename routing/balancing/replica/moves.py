"""Moves: what of a replica's requests in flight could go on elsewhere, and what has (stream migration).

State alone, of one replica in one worker. Written by :mod:`routing.proxy.stream_mover` and, as a request
leaves, :mod:`routing.proxy.exchange.moving`; reports read it.
"""

from __future__ import annotations


class Moves:
    """The counts of the last look are 0 where nobody looks: moving is for fleets that continue streams, and
    for replicas that are to be free."""

    __slots__ = ("movable", "movable_prompt_tokens", "moved", "moved_prompt_tokens", "staying")

    def __init__(self) -> None:
        self.movable = 0
        """Requests in flight that another replica could go on with, as soon as it has room."""
        self.movable_prompt_tokens = 0
        """Prompt tokens that it would have to read for that, as estimated."""
        self.staying: dict[str, int] = {}
        """The others, by reason (:data:`routing.contract.moving.STAYS`)."""
        self.moved = 0
        """Since the replica is to be free."""
        self.moved_prompt_tokens = 0

    def begin(self) -> None:
        """It is to be free from now on."""
        self.moved = self.moved_prompt_tokens = 0

    def left(self, prompt_tokens: int) -> None:
        """A request has left for another replica, which has to read so many tokens for it."""
        self.moved += 1
        self.moved_prompt_tokens += prompt_tokens

    def looked(self, movable: int, prompt_tokens: int, staying: dict[str, int]) -> None:
        """What a look has shown."""
        self.movable, self.movable_prompt_tokens, self.staying = movable, prompt_tokens, staying
