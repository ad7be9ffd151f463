"""What became of one notification."""

from typing import NamedTuple


class SendResult(NamedTuple):
    taken: bool
    words: str
    """What was answered, or why there was no answer."""
    retry_after_s: float = 0.0
    """How long the receiver asks to wait (Retry-After); 0: it does not say."""
