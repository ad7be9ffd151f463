"""Restart backoff: how long a program that has ended waits before it is started again."""

BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
"""After the first end, the second …"""
FORGIVEN_AFTER_S = 5.0
"""A program that runs has one end forgiven each time that so much has passed. So one that is killed now and
then is started at once, and one that lives for some seconds only is part of a crash loop."""


class RestartBackoff:
    """Of one program."""

    def __init__(self) -> None:
        self._ends = 0

    def ended(self, lived_s: float) -> float:
        """Seconds until it is to be started again."""
        forgiven = int(lived_s / FORGIVEN_AFTER_S)
        before = max(0, self._ends - forgiven)
        self._ends = min(before + 1, len(BACKOFF_S) - 1)
        return BACKOFF_S[before]
