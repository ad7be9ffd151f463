"""What was read out of one request."""


class Ask:
    """A request's own words about itself."""

    __slots__ = ("model", "stream", "work")

    def __init__(self, model: str, stream: bool, work: float) -> None:
        self.model = model
        """As the client wrote it; empty when it named none."""
        self.stream = stream
        """Whether the client asked to have the answer streamed."""
        self.work = work
        """Estimated units of work; 0: no estimate."""

    def __repr__(self) -> str:
        return f"<Ask model={self.model!r} stream={self.stream} work={self.work:g}>"


class BadAsk(Exception):
    """The body cannot be what its protocol says; the text tells the client why."""
