"""Nobody could be picked for a request: what to answer the client instead, or whether it may wait."""

from routing.replica import Replica


class Refusal:
    """Why no replica takes the request now."""

    __slots__ = ("code", "message", "retry_after_s", "status", "waits_s", "wanted")

    def __init__(self, code: str, message: str, retry_after_s: float | None, waits_s: float = 0.0) -> None:
        self.status = 503
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.waits_s = waits_s
        """How long the request may wait for that to change; 0: it is answered at once."""
        self.wanted: Replica | None = None
        """The replica that it would best wait for; ``None``: any."""

    def __repr__(self) -> str:
        return f"<Refusal {self.status} {self.code}: {self.message}>"
