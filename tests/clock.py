"""A clock that stands still until a test moves it."""


class Clock:
    """Called like ``time.monotonic``; ``now`` is what it says, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
