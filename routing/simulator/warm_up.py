"""Warm-up of a server: its first answers after a start are slow, as long as it compiles or fills caches."""

from typing import NamedTuple


class WarmUp(NamedTuple):
    """How a server begins. A slot's first requests are slowed one by one; a server that batches is slow as a
    whole until it has given so many answers, since all sequences share its steps."""

    answers: int = 3
    factor: float = 0.05
    """Of its speed, above 0."""
