"""Rejection of a request (503): the reason when no replica takes it, and whether it may queue."""

from routing.balancing.replica.state import Replica


class Rejection:
    """Why no replica takes the request now. Not changed once made: one object may be returned many times."""

    __slots__ = ("code", "declined_slot", "max_wait_s", "message", "preferred", "retry_after_s")

    status = 503

    def __init__(
        self,
        code: str,
        message: str,
        retry_after_s: float | None,
        max_wait_s: float = 0.0,
        preferred: Replica | None = None,
        declined_slot: bool = False,
    ) -> None:
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.max_wait_s = max_wait_s
        """How long the request may wait for that to change; 0: it is answered at once."""
        self.preferred = preferred
        """The replica that it would best wait for; ``None``: any."""
        self.declined_slot = declined_slot
        """Whether a slot was free and was left for a replica that is worth the wait."""

    def __repr__(self) -> str:
        return f"<Rejection {self.status} {self.code}: {self.message}>"
