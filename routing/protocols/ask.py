"""What a request says about itself."""

from typing import NamedTuple


class Ask(NamedTuple):
    """Read out of one request."""

    model: str
    """As the client wrote it; empty when it named none."""
    stream: bool
    """Whether the client asked to have the answer streamed."""
    work: float
    """Estimated units of work; 0: no estimate."""


class BadAsk(Exception):
    """The body cannot be what its protocol says; the text tells the client why."""
