"""Body charge: what one request body counts in the budget of its worker, and whose it is."""

from __future__ import annotations

from typing import Protocol

SMALL_BYTES = 65_536

COLLECTING, WAITING, STREAMING, RUNNING, RELEASED = range(5)
"""See :mod:`routing.proxy.limits.body_budget`."""


class BodyOwner(Protocol):
    """The exchange whose body it is. Crosses a layer: :mod:`routing.proxy.exchange` implements it."""

    def pause_collecting(self) -> None:
        """Read no more of the body for now."""

    def resume_collecting(self) -> None:
        """Read on."""

    def refuse_body(self) -> None:
        """Respond that there is no memory for it, and release it."""

    def free_retry_copy(self) -> bool:
        """Give up what is kept for a retry alone, and release it; whether there was such a copy."""
        ...

    def measure_upload(self) -> None:
        """Resize the charge of a stream to what is held of it now."""

    def end_upload(self) -> None:
        """End the request of a stream, with a 408 if no response has begun, and release it."""

    @property
    def neighbours(self) -> int:
        """How many connections the client's address has."""
        ...


class BodyCharge:
    """What one body counts. :class:`routing.proxy.limits.body_budget.BodyBudget` makes and changes it."""

    __slots__ = (
        "announced",
        "began",
        "is_known",
        "is_small",
        "marked_at",
        "marked_size",
        "owner",
        "promised",
        "size",
        "state",
    )

    def __init__(self, owner: BodyOwner, size: int, announced: int, is_known: bool, began: int) -> None:
        self.owner = owner
        self.size = size
        """Bytes held."""
        self.is_known = is_known
        """Whether its fleet is known before it is whole."""
        self.is_small = size <= SMALL_BYTES and announced <= SMALL_BYTES
        """Whether it counts for the part of small bodies: not as a stream."""
        self.announced = announced
        """Its Content-Length; 0: unknown."""
        self.began = began
        """Bodies are numbered as they begin."""
        self.state = COLLECTING
        self.marked_at = 0.0
        self.marked_size = 0
        """When it had made progress last, and its size then: of a stream, since when bytes are held."""
        self.promised = False
        """It is read on after it has waited, and nothing has come yet."""
